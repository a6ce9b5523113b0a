"""How much every row changes every prediction: explicit refits, on all rows and by features, and the picture."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from problems import L1SubstrateRegressor, LSSVMClassifier, LSSVMRegressor, PartiallyLinearLSSVMRegressor
from problems.displays import RowInfluenceDisplay
from substrate.datasets import additive_function, motorcycle
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Linear

X, Y = motorcycle()
X, Y = X[::6], Y[::6]
A, B = additive_function(20, 4, random_state=0)


@pytest.mark.parametrize(
    "machine",
    [
        LSSVMRegressor(RBF(1.0), gamma=5.0),
        LSSVMRegressor(Linear(), gamma=5.0),
        PartiallyLinearLSSVMRegressor(RBF(1.0), gamma=5.0, linear_columns=[0]),
    ],
    ids=["kernel", "features", "linear part"],
)
def test_changes_are_those_of_refits(machine):
    rng = np.random.default_rng(0)
    new, weights = rng.uniform(size=(3, A.shape[1])), rng.uniform(0.5, 2.0, B.size)
    changes = machine.fit(A, B, weights).influence_of_rows(new)
    whole = machine.predict(new)
    for i in range(B.size):
        without = type(machine)(**machine.get_params(deep=False))
        without.fit(np.delete(A, i, 0), np.delete(B, i), np.delete(weights, i))
        assert_allclose(changes[:, i], whole - without.predict(new), rtol=1e-6, atol=1e-9)


def test_several_outputs_have_an_axis_of_their_own():
    model = LSSVMRegressor(RBF(1.0)).fit(A, np.column_stack([B, -2.0 * B]))
    changes = model.influence_of_rows(A[:3])
    assert changes.shape == (3, 2, B.size)
    assert_allclose(changes[:, 1], -2.0 * changes[:, 0], rtol=1e-9, atol=1e-12)


def test_the_picture_has_the_range_without_any_row(plt):
    model = LSSVMRegressor(RBF(6.6), gamma=2.0).fit(X, Y)
    display = RowInfluenceDisplay.from_estimator(model, X, names=["time (ms)"])
    changes = model.influence_of_rows(X)
    assert_allclose(display.stability, np.abs(changes).max(axis=1))
    marked = next(line for line in display.ax_.lines if "change it most" in str(line.get_label()))
    most = np.argsort(-np.abs(changes).max(axis=0), kind="stable")[:5]
    assert_allclose(marked.get_xdata(), X[most, 0])
    assert f"{np.abs(changes).max():.4g}" in display.ax_.get_title()


def test_the_largest_changes_are_in_order(plt):
    model = LSSVMRegressor(RBF(1.0)).fit(A, B)
    display = RowInfluenceDisplay.from_estimator(model, A)
    sizes = display.ax_.lines[0].get_ydata()
    assert_allclose(sizes, np.sort(np.abs(model.influence_of_rows(A)).max(axis=0))[::-1])
    assert display.ax_.texts[0].get_text() == f" row {int(np.argmax(display.largest))}"


def test_refusals(plt):
    with pytest.raises(NotFittedError):
        LSSVMRegressor(RBF(6.6)).influence_of_rows(X)
    with pytest.raises(DeclarationError, match="RowInfluenceDisplay draws LSSVMRegressor"):
        RowInfluenceDisplay.from_estimator(L1SubstrateRegressor(), X)
    with pytest.raises(DeclarationError, match="draws regressors"):
        RowInfluenceDisplay.from_estimator(LSSVMClassifier(RBF(1.0)).fit(A, B.mean() < B), A)
    with pytest.raises(DeclarationError, match="outputs 0 to 0"):
        RowInfluenceDisplay.from_estimator(LSSVMRegressor(RBF(6.6)).fit(X, Y), X, output=1)
