"""LS-SVM regression as a declared problem: primal = dual = closed form = a plain solve of the bordered system."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import ls_svm_regression
from substrate.datasets import boston, motorcycle
from substrate.kernels import RBF

FORMS = ("primal", "dual")


def bordered(K, y, gamma, weights=None):
    """[0 1'; 1 K + D] [b; alpha] = [0; y], by numpy."""
    n = y.size
    D = np.diag(1.0 / (gamma * (np.ones(n) if weights is None else weights)))
    matrix = np.block([[np.zeros((1, 1)), np.ones((1, n))], [np.ones((n, 1)), K + D]])
    solution = np.linalg.solve(matrix, np.append(0.0, y))
    return {"support_values": solution[1:], "bias": solution[0], "errors": y - K @ solution[1:] - solution[0]}


def motorcycle_case():
    X, y = motorcycle()
    return RBF(6.6)(X), y, 2.0


def boston_case():
    X, y = boston()
    X, y = X[::8][:60], y[::8][:60]
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return RBF(4.0)(X), y, 10.0


CASES = {"motorcycle": motorcycle_case, "boston": boston_case}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]()


@pytest.fixture
def small():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(15, 2))
    return RBF(1.5)(X), np.sin(X[:, 0]) + 0.1 * rng.normal(size=15), 3.0


def assert_same(found, expected, tolerance):
    for name, value in expected.items():
        value = np.asarray(value)
        assert_allclose(found[name], value, atol=tolerance * np.abs(value).max(), rtol=0.0, err_msg=name)


def test_the_script_of_a_teacher_works_as_written(case):
    K, y, _ = case
    declared = ls_svm_regression.declare(K, y, gamma=2.0)
    assert isinstance(declared.problem, cp.Problem)
    declared.solve()
    expected = bordered(K, y, 2.0)
    assert_same(
        {"support_values": declared.support_values, "bias": declared.bias},
        {
            "support_values": expected["support_values"],
            "bias": expected["bias"],
        },
        1e-6,
    )
    report = str(declared.certificate())
    assert report.startswith("LS-SVM regression (primal): holds; fitted values within")
    for words in ("check", "residual", "scale", "tolerance", "pass", "fit equalities", "duality gap", "CLARABEL"):
        assert words in report


@pytest.mark.parametrize("weighted", [False, True])
def test_the_closed_form_is_the_bordered_solve(case, weighted):
    """:equation [Pelckmans2005]_ (2): against the system written out."""
    K, y, gamma = case
    weights = np.linspace(0.1, 3.0, y.size) if weighted else None
    assert_same(ls_svm_regression.closed_form(K, y, gamma, weights), bordered(K, y, gamma, weights), 1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_optimal_values_meet(case, form):
    """:equation [Pelckmans2005]_ (1): the declared optimum is the objective at the solution of the linear system.
    :equation [Suykens2002]_ (1)-(2): the same problem.
    """
    K, y, gamma = case
    expected = bordered(K, y, gamma)
    alpha, e = expected["support_values"], expected["errors"]
    value = 0.5 * alpha @ K @ alpha + 0.5 * gamma * e @ e
    declared = ls_svm_regression.declare(K, y, gamma, form=form).solve()
    assert_allclose(declared.problem.value, value, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_disagreement_with_the_closed_form_is_seen(small, form):
    K, y, gamma = small
    declared = ls_svm_regression.declare(K, y, gamma, form=form).solve()
    other = ls_svm_regression.closed_form(K, y, 1.01 * gamma)
    certificate = declared.certificate(against=other)
    names = {row.name for row in certificate.failures}
    assert names == {"agreement: support values", "agreement: bias", "agreement: errors"}
