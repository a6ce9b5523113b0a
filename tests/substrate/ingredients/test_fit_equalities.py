"""The fit equalities of classification: the constraint, its multiplier's sign, and what counts as a label."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.errors import DataError
from substrate.ingredients import classification_fit, margin_row, signed_labels


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(9, 3))
    return A, np.where(rng.normal(size=9) > 0.0, 1.0, -1.0)


def solved(build, A, y):
    w, b, e = cp.Variable(3), cp.Variable(), cp.Variable(9)
    fit = build(y, A @ w + b, e)
    cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + cp.sum_squares(e)), [fit.constraint]).solve(solver="CLARABEL")
    return fit, w.value, b.value, e.value


def test_the_multiplier_is_gamma_e_on_both_sides(small):
    A, y = small
    fit, w, b, e = solved(classification_fit, A, y)
    assert (e > 0.0).any()
    assert (e < 0.0).any()
    assert_allclose(e, 1.0 - y * (A @ w + b), atol=1e-7)
    assert_allclose(fit.multiplier, 2.0 * e, atol=1e-6)
    assert_allclose(w, A.T @ (y * fit.multiplier), atol=1e-6)
    assert fit.constraint.label == "fit equalities"
    assert fit.row(1e-6).passes


def test_the_row_measures_the_equalities(small):
    A, y = small
    f = A[:, 0]
    e = 1.0 - y * f
    assert margin_row(y, f, e, 1e-12).passes
    wrong = e.copy()
    wrong[4] += 1e-3
    row = margin_row(y, f, wrong, 1e-5)
    assert_allclose(row.value, 1e-3, rtol=1e-9)
    assert_allclose(row.scale, 3.0 + np.linalg.norm(f) + np.linalg.norm(wrong))
    assert not row.passes
    assert not margin_row(y, f, y - f, 1e-6).passes, "the errors of regression have the other sign on one side"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1.0, -1.0], "expected 3, received 2"),
        ([1.0, -1.0, 0.0], r"labels -1 and \+1, received \[-1.  0.  1.\]; map your classes"),
        ([1.0, -1.0, 2.0], r"labels -1 and \+1"),
        ([True, False, True], r"labels -1 and \+1"),
        ([1.0, 1.0, 1.0], r"one class only \(\+1\)"),
        ([-1.0, -1.0, -1.0], r"one class only \(-1\)"),
        ([1.0, -1.0, np.nan], "NaN or infinity"),
        (["a", "b", "a"], "real numbers"),
        ([[1.0], [-1.0], [1.0]], "1-D"),
        ([], "empty"),
        (np.ma.masked_array([1.0, -1.0, 1.0], mask=[0, 0, 1]), "masked"),
    ],
)
def test_what_is_no_label(labels, message):
    with pytest.raises(DataError, match=message):
        signed_labels(labels, 3)
