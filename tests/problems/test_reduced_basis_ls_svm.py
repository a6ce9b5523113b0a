"""The declared reduced-basis LS-SVM: its closed form, the printed systems, and the conventional sparse machine."""

import naive_reduced_basis as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import ls_svm_regression
from problems.reduced_basis_ls_svm import closed_form, declare
from substrate import conventions
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF

RNG = np.random.default_rng(2)
X = RNG.normal(size=(40, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=40)
K = RBF(1.0)(X)
S = [3, 17, 5, 22, 31, 8, 11]
GAMMA = 4.0


@pytest.mark.parametrize("residuals", ["all", "kept"])
@pytest.mark.parametrize("solver", ["CLARABEL", "PIQP"])
def test_declared_is_closed_form(residuals, solver):
    """:equation [Cawley2004]_ (2): the declared problem and the closed form agree."""
    declared = declare(K, Y, GAMMA, residuals=residuals, basis=S).solve(solver)
    certificate = declared.certificate(against=closed_form(K, Y, GAMMA, residuals=residuals, basis=S))
    assert certificate.holds, str(certificate)
    assert declared.coefficients.shape == (7,)


def test_all_residuals_is_stacked_least_squares():
    expected = naive.fit(K[np.ix_(S, S)], K[:, S], Y, GAMMA)
    found = closed_form(K, Y, GAMMA, basis=S)
    assert_allclose(Y - found["errors"], expected, atol=1e-12)
    assert_allclose(found["support_values"], GAMMA * found["errors"])
    assert_allclose(found["support_values"].sum(), 0.0, atol=1e-11)


def test_the_conventional_machine_is_the_dense_one_on_the_points_it_keeps():
    dense = ls_svm_regression.closed_form(K[np.ix_(S, S)], Y[S], GAMMA)
    kept = closed_form(K, Y, GAMMA, residuals="kept", basis=S)
    assert_allclose(kept["errors"], dense["errors"], atol=1e-12)
    assert_allclose(kept["bias"], dense["bias"], atol=1e-12)


def test_on_all_points_it_is_the_dense_machine():
    dense = ls_svm_regression.closed_form(K, Y, GAMMA)
    for residuals in ("all", "kept"):
        found = closed_form(K, Y, GAMMA, residuals=residuals, basis=np.arange(40))
        assert_allclose(found["errors"], dense["errors"], atol=1e-10)
        assert_allclose(found["bias"], dense["bias"], atol=1e-10)


def test_the_printed_sparse_system_is_ours_and_the_printed_dense_one_is_off_by_two():
    """:equation [Cawley2004]_ (3), (A.3): against the printed system."""
    printed = conventions.gamma_to("Cawley2004", GAMMA)
    M, right = naive.printed_system(K, K, Y, printed)
    sparse = K @ np.linalg.solve(M, right)[:-1] + np.linalg.solve(M, right)[-1]
    ours = Y - closed_form(K, Y, GAMMA, basis=np.arange(40))["errors"]
    assert_allclose(sparse, ours, atol=1e-6)
    dense = ls_svm_regression.closed_form(K, Y, printed)  # K + I/gamma with the printed gamma, as printed
    assert np.abs(Y - dense["errors"] - ours).max() > 1e-2
    right_one = ls_svm_regression.closed_form(K, Y, 2.0 * printed)
    assert_allclose(Y - right_one["errors"], ours, atol=1e-10)


def test_gamma_of_the_mean_squared_error():
    """:equation [Cawley2002]_ (beta): against the printed system."""
    assert conventions.gamma_to("Cawley2002", GAMMA, n=40) == GAMMA * 40 / 2
    n_rows = 40
    gamma_000 = conventions.gamma_to("Cawley2002", GAMMA, n=n_rows)
    part, rows = K[np.ix_(S, S)], K[:, S]
    # the printed (|S| + 1) system of the 2002 paper
    omega = n_rows / (2.0 * gamma_000) * part + rows.T @ rows
    phi = rows.sum(axis=0)
    M = np.block([[omega, phi[:, None]], [phi[None, :], np.array([[float(n_rows)]])]])
    solution = np.linalg.solve(M, np.append(rows.T @ Y, Y.sum()))
    found = closed_form(K, Y, GAMMA, basis=S)
    assert_allclose(rows @ solution[:-1] + solution[-1], Y - found["errors"], atol=1e-9)


def test_the_appendix_needs_l_where_one_is_printed():
    """(A.2): with b and 1 for l b and l the bias equation has another solution than the minimum.

    :equation [Cawley2004]_ (A.2): with the corner l, and not with the printed 1.
    """
    part, rows = K[np.ix_(S, S)], K[:, S]
    omega, phi = part / GAMMA + rows.T @ rows, rows.sum(axis=0)
    right = np.append(rows.T @ Y, Y.sum())
    corrected, printed = (
        np.linalg.solve(np.block([[omega, phi[:, None]], [phi[None, :], np.array([[corner]])]]), right)
        for corner in (40.0, 1.0)
    )
    expected = Y - closed_form(K, Y, GAMMA, basis=S)["errors"]
    assert_allclose(rows @ corrected[:-1] + corrected[-1], expected, atol=1e-9)
    assert np.abs(rows @ printed[:-1] + printed[-1] - expected).max() > 1e-2


@pytest.mark.parametrize("basis", [[], [40], [-1], [0.5], "all", [[1, 2]]])
def test_a_basis_that_is_none(basis):
    with pytest.raises(DataError, match="basis must be a list of points"):
        closed_form(K, Y, GAMMA, basis=basis)


def test_what_is_refused():
    with pytest.raises(DeclarationError, match="residuals must be one of all, kept"):
        declare(K, Y, GAMMA, residuals="some")
    for n_basis in (0, 41, 1.5, -0.2, True):
        with pytest.raises(DeclarationError, match="n_basis must be"):
            closed_form(K, Y, GAMMA, n_basis=n_basis)


@pytest.mark.parametrize("residuals", ["all", "kept"])
def test_with_weights_of_the_rows_declared_closed_form_and_least_squares_agree(residuals):
    v = np.linspace(0.2, 3.0, 40)
    known = closed_form(K, Y, GAMMA, residuals=residuals, basis=S, weights=v)
    declared = declare(K, Y, GAMMA, residuals=residuals, basis=S, weights=v).solve("CLARABEL")
    certificate = declared.certificate(against=known)
    assert certificate.holds, str(certificate)
    rows = np.arange(40) if residuals == "all" else np.array(S)
    assert_allclose(known["support_values"], GAMMA * v[rows] * known["errors"])
    assert_allclose(known["support_values"].sum(), 0.0, atol=1e-11)
    # rows, targets and the one of the bias times the roots of the weights, the norm below them
    root, part = np.sqrt(GAMMA * v[rows]), K[np.ix_(S, S)]
    below = np.column_stack([np.linalg.cholesky(part).T, np.zeros(len(S))])
    stacked = np.vstack([root[:, None] * np.column_stack([K[np.ix_(rows, S)], np.ones(rows.size)]), below])
    solution = np.linalg.lstsq(stacked, np.append(root * Y[rows], np.zeros(len(S))), rcond=None)[0]
    assert_allclose(known["errors"], Y[rows] - K[np.ix_(rows, S)] @ solution[:-1] - solution[-1], atol=1e-9)


def test_a_weight_of_the_page_is_a_repeated_row():
    times = 1 + np.arange(40) % 3
    rows = np.repeat(np.arange(40), times)
    places = [int(np.flatnonzero(rows == s)[0]) for s in S]
    weighted = closed_form(K, Y, GAMMA, basis=S, weights=times)
    repeated = closed_form(K[np.ix_(rows, rows)], Y[rows], GAMMA, basis=places)
    assert_allclose(weighted["errors"][rows], repeated["errors"], atol=1e-11)
