"""LS-SVM classification, declared: primal = dual = closed form = a plain solve of the label-signed system."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import ls_svm_classification, ls_svm_regression
from substrate.datasets import ripley
from substrate.errors import DataError
from substrate.kernels import RBF, Linear

FORMS = ("primal", "dual")


def signed(K, y):
    """Omega, by its definition."""
    return np.array([[y[i] * y[j] * K[i, j] for j in range(y.size)] for i in range(y.size)])


def bordered(K, y, gamma, weights=None):
    """[0 y'; y Omega + D] [b; alpha] = [0; 1], by numpy."""
    n = y.size
    D = np.diag(1.0 / (gamma * (np.ones(n) if weights is None else weights)))
    matrix = np.block([[np.zeros((1, 1)), y[None, :]], [y[:, None], signed(K, y) + D]])
    solution = np.linalg.solve(matrix, np.append(0.0, np.ones(n)))
    alpha, b = solution[1:], solution[0]
    return {"support_values": alpha, "bias": b, "errors": 1.0 - y * (K @ (y * alpha) + b)}


def objective(K, y, gamma, weights, alpha, b):
    """The primal at w = sum alpha y phi, with the errors that the equalities leave."""
    w_squared = (y * alpha) @ K @ (y * alpha)
    e = 1.0 - y * (K @ (y * alpha) + b)
    return 0.5 * w_squared + 0.5 * gamma * np.sum(weights * e**2)


def ripley_case():
    X, y = ripley()
    rows = np.r_[0:40, 125:165]
    return RBF(0.5)(X[rows]), np.where(y[rows] == np.unique(y)[1], 1.0, -1.0), 1.0, None


def weighted_case():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(25, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=25) > 0.4, 1.0, -1.0)
    return RBF(1.0)(X), y, 20.0, rng.uniform(0.1, 5.0, 25)


def rank_deficient_case():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(20, 2))
    return Linear()(X), np.where(X.sum(axis=1) > 0.2, 1.0, -1.0), 3.0, None


CASES = {"ripley": ripley_case, "weighted": weighted_case, "rank deficient": rank_deficient_case}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]()


@pytest.fixture
def small():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(14, 2))
    return RBF(1.5)(X), np.where(X[:, 0] > 0.1 * rng.normal(size=14), 1.0, -1.0), 3.0


def assert_same(found, expected, tolerance):
    for name, value in expected.items():
        value = np.asarray(value)
        assert_allclose(found[name], value, atol=tolerance * np.abs(value).max(), rtol=0.0, err_msg=name)


# ---- agreement -----------------------------------------------------------------------------------


def test_the_closed_form_is_the_bordered_solve(case):
    """:equation [Pelckmans2005]_ (5): against the system written out."""
    K, y, gamma, weights = case
    assert_same(ls_svm_classification.closed_form(K, y, gamma, weights), bordered(K, y, gamma, weights), 1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_optimal_values_meet(case, form):
    """:equation [Pelckmans2005]_ (4): the declared optimum is the objective at the solution of the linear system.
    :equation [Carvalho2006]_ (2): the same problem.
    """
    K, y, gamma, weights = case
    expected = bordered(K, y, gamma, weights)
    v = np.ones(y.size) if weights is None else weights
    value = objective(K, y, gamma, v, expected["support_values"], expected["bias"])
    declared = ls_svm_classification.declare(K, y, gamma, weights, form=form).solve()
    assert_allclose(declared.problem.value, value, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_it_is_regression_on_the_labels(case, form):
    K, y, gamma, weights = case
    regression = ls_svm_regression.closed_form(K, y, gamma, weights)
    solved = ls_svm_classification.declare(K, y, gamma, weights, form=form).solve().solution()
    for found in (solved, ls_svm_classification.closed_form(K, y, gamma, weights)):
        scale = np.abs(regression["support_values"]).max()
        assert_allclose(found["support_values"], y * regression["support_values"], atol=1e-5 * scale)
        assert_allclose(found["errors"], y * regression["errors"], atol=1e-5)
        assert_allclose(found["bias"], regression["bias"], atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_the_conditions_of_the_paper(case, form):
    K, y, gamma, weights = case
    declared = ls_svm_classification.declare(K, y, gamma, weights, form=form).solve()
    alpha, b, e = declared.support_values, declared.bias, declared.errors
    f = K @ (y * alpha) + b
    scale = np.abs(alpha).max()
    assert_allclose(e, 1.0 - y * f, atol=1e-5)
    assert_allclose(alpha, gamma * (1.0 if weights is None else weights) * e, atol=1e-5 * scale)
    assert_allclose(y @ alpha, 0.0, atol=1e-5 * np.abs(alpha).sum())
    assert (alpha > 0.0).any(), "a point that misses the margin has a positive support value"


# ---- errata --------------------------------------------------------------------------------------


def carvalho(K, y, gamma, *, every_entry=False, first_row=1.0):
    """[0 s y'; y Omega + 1/gamma] with 1/gamma on the diagonal, or added to every entry as (3) is printed."""
    n = y.size
    added = np.full((n, n), 1.0 / gamma) if every_entry else np.eye(n) / gamma
    matrix = np.block([[np.zeros((1, 1)), first_row * y[None, :]], [y[:, None], signed(K, y) + added]])
    solution = np.linalg.solve(matrix, np.append(0.0, np.ones(n)))
    return solution[1:], solution[0]


@pytest.mark.parametrize("gamma", [0.3, 3.0])
def test_carvalho_3_as_printed_is_not_the_optimum(small, gamma):
    """:equation [Carvalho2006]_ (3): with 1/gamma on the diagonal the optimum, with it in every entry not."""
    K, y, _ = small
    optimum = ls_svm_classification.declare(K, y, gamma).solve()
    ones = np.ones(y.size)
    diagonal = carvalho(K, y, gamma)
    printed = carvalho(K, y, gamma, every_entry=True)
    assert_allclose(objective(K, y, gamma, ones, *diagonal), optimum.problem.value, rtol=1e-7)
    assert objective(K, y, gamma, ones, *printed) > 1.01 * optimum.problem.value
    assert_allclose(diagonal[0], optimum.support_values, atol=1e-6 * np.abs(diagonal[0]).max())
    assert np.abs(printed[0] - optimum.support_values).max() > 0.1 * np.abs(diagonal[0]).max()


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [ls_svm_classification.declare, ls_svm_classification.closed_form])
def test_refusals_say_what_is_wrong(small, function):
    K, y, gamma = small
    for wrong in (np.where(y > 0, 1.0, 0.0), np.where(y > 0, 2.0, 1.0), 1.5 * y, np.linspace(-1.0, 1.0, 14)):
        with pytest.raises(DataError, match=r"y must hold labels -1 and \+1, received"):
            function(K, wrong, gamma)
    for one in (1.0, -1.0):
        with pytest.raises(DataError, match=r"y holds one class only \([+-]1\)"):
            function(K, np.full(14, one), gamma)
