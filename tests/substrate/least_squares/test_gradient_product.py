"""The average gradient outer product of kernel expansions: that of differences of predictions, and its widths."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import LSSVMRegressor
from problems.estimators.chosen.tasks import Task
from problems.estimators.chosen.width_rule import gradient_scales
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Laplacian, Matern
from substrate.least_squares.gradient_product import average_gradient_product, widths_by_gradients
from substrate.progress import Progress

RNG = np.random.default_rng(5)
X = RNG.normal(size=(40, 3))
Y = np.column_stack([np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1], X[:, 0] * X[:, 1]])
V = RNG.uniform(0.5, 2.0, size=40)


@pytest.mark.parametrize("kernel", [RBF(2.0), Matern((1.0, 2.0, 3.0), nu=2.5)], ids=repr)
def test_it_is_the_mean_of_gradients_of_the_predictions(kernel):
    """Against central differences of what the machine predicts."""
    model = LSSVMRegressor(kernel, gamma=50.0).fit(X, Y)
    h, expected = 1e-5, np.zeros((3, 3))
    gradients = np.stack([(model.predict(X + step) - model.predict(X - step)) / (2.0 * h) for step in h * np.eye(3)])
    for i in range(40):
        for output in range(2):
            expected += V[i] / V.sum() * np.outer(gradients[:, i, output], gradients[:, i, output])
    found = average_gradient_product(kernel, X, X, model.support_values_, V)
    assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    assert_allclose(found, found.T, rtol=1e-12)


def test_widths_have_the_ratios_of_derivatives_and_the_size_of_those_given():
    widths = widths_by_gradients(np.diag([4.0, 1.0, 0.0]), np.array([1.0, 1.0, 1.0]))
    assert_allclose(widths[1] / widths[0], 2.0)
    assert np.isfinite(widths[2])
    assert widths[2] > 10.0 * widths[1]
    assert_allclose(np.mean(1.0 / widths**2), 1.0)
    units = np.array([1e-9, 1.0, 1e9])  # of the inputs: a derivative is one over that
    scaled = widths_by_gradients(np.diag(np.array([4.0, 1.0, 0.0]) / units**2), units)
    assert_allclose(scaled, widths * units, rtol=1e-12)
    assert_allclose(widths_by_gradients(np.zeros((3, 3)), np.full(3, 2.0)), 2.0)


def test_kernels_without_derivatives_and_other_weights_are_refused():
    with pytest.raises(DeclarationError, match="kink"):
        average_gradient_product(Laplacian(1.0), X, X, np.ones(40))
    with pytest.raises(DataError, match="one number per row, 40"):
        average_gradient_product(RBF(1.0), X, X, np.ones(40), np.ones(3))


def test_a_search_of_widths_may_start_from_gradients_of_a_smooth_machine():
    task = Task(X=X, Y=Y[:, :1], criterion="loo", splits=(), gammas=None, gap=1e-4, pooled=False)
    rich, quiet = Laplacian((2.0, 2.0, 2.0)), Progress(0, shown=False)
    assert gradient_scales(rich, [Laplacian(2.0)], task, quiet) is None, "no kernel has derivatives"
    logs = gradient_scales(rich, [Laplacian(2.0), RBF(2.0)], task, quiet)
    assert logs is not None
    assert logs[0] < logs[1] < logs[2], "the first input matters most, the last one not at all"
