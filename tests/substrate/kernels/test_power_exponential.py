"""Exponentials of powers of distances: known kernels among them, where they are positive definite, and their search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import LSSVMRegressor, LSSVMRegressorCV, load
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Laplacian, Matern, PowerExponential

RNG = np.random.default_rng(6)
X = RNG.normal(size=(18, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=18)


@pytest.mark.parametrize("sigma", [1.7, (0.5, 2.0, 9.0)], ids=["one width", "each"])
def test_laplacian_rbf_and_matern_kernels_are_among_them(sigma):
    for p, q, kernel in ((1.0, 1.0, Laplacian(sigma)), (2.0, 2.0, RBF(sigma)), (2.0, 1.0, Matern(sigma, 0.5))):
        assert_allclose(PowerExponential(sigma, p, q)(X), kernel(X), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("p", "q"), [(2.1, 1.0), (1.0, 1.2), (0.5, 1.0)])
def test_powers_that_are_not_positive_definite_are_refused(p, q):
    with pytest.raises(DeclarationError, match="positive definite for 0 < q <= p <= 2"):
        PowerExponential(1.0, p, q)


def test_beyond_the_range_a_matrix_has_negative_eigenvalues():
    """What is refused would be wrong: p = 2 and q = 4 at points of a line."""
    line = np.linspace(0.0, 3.0, 12)
    values = np.linalg.eigvalsh(np.exp(-(np.abs(line[:, None] - line[None, :]) ** 4)))
    assert values[0] < -1e-3
    inside = np.linalg.eigvalsh(PowerExponential(1.0, 2.0, 1.9)(line[:, None]))
    assert inside[0] > -1e-13


def test_a_machine_is_certified_proved_searched_and_kept(tmp_path):
    pytest.importorskip("flint", reason="a proof is in ball arithmetic")
    fixed = LSSVMRegressor(PowerExponential("each", 1.5, 0.8), gamma=10.0).fit(X, Y)
    (bound,) = [row.value for row in fixed.certify(X, Y).rows if row.name == "accuracy"]
    assert fixed.prove(X, Y).accuracy <= bound
    candidates = [PowerExponential(p=1.0, q=0.5), PowerExponential(p=2.0, q=1.5)]
    model = LSSVMRegressorCV(kernels=candidates, search="gradient", max_evaluations=20).fit(X, Y)
    assert model.certificate_.holds
    assert model.criterion_lower_bound_ <= model.criterion_
    assert {(kernel.p, kernel.q) for kernel in model.cv_results_["param_kernel"]} == {(1.0, 0.5), (2.0, 1.5)}
    model.save(tmp_path / "model.json")
    assert load(tmp_path / "model.json").kernel_ == model.kernel_
