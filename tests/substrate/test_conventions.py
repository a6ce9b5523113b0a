"""Each relation between conventions is put to the test: by fitting the peer, or by minimising what the paper writes."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor, kernels
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer
from sklearn.svm import LinearSVR

from problems import LSSVMRegressor
from substrate.conventions import CONVENTIONS, gamma_from, gamma_to, sigma_from, sigma_to, table
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Linear

GAMMA, SIGMA = 3.7, 1.3


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=30), rng.normal(size=(9, 2))


def ours(X, y, X_new, gamma=GAMMA, sigma=SIGMA):
    return LSSVMRegressor(RBF(sigma), gamma=gamma).fit(X, y).predict(X_new)


def minimised(K, K_new, y, error_weight):
    """min 1/2 a'Ka + c sum e^2 over a and an unpenalised b, e = y - Ka - b: one symmetric linear system by hand."""
    n = len(y)
    # gradient in a: Ka - 2cK(y - Ka - b) = 0; gradient in b: -2c 1'(y - Ka - b) = 0
    A = np.block(
        [
            [K + 2.0 * error_weight * K @ K, 2.0 * error_weight * K @ np.ones((n, 1))],
            [2.0 * error_weight * np.ones((1, n)) @ K, np.array([[2.0 * error_weight * n]])],
        ]
    )
    right = np.append(2.0 * error_weight * K @ y, 2.0 * error_weight * y.sum())
    solution = np.linalg.lstsq(A, right, rcond=None)[0]
    return K_new @ solution[:n] + solution[n]


# ---- scikit-learn --------------------------------------------------------------------------------


def test_ridge_regression(data):
    X, y, X_new = data
    alpha = gamma_to("scikit-learn", GAMMA)
    theirs = Ridge(alpha=alpha, tol=1e-12).fit(X, y).predict(X_new)
    model = LSSVMRegressor(Linear(), gamma=gamma_from("scikit-learn", alpha)).fit(X, y)
    assert_allclose(model.predict(X_new), theirs, rtol=1e-9)
    assert np.abs(Ridge(alpha=GAMMA).fit(X, y).predict(X_new) - theirs).max() > 1e-3, "the relation is no identity"


def test_kernel_ridge_on_the_centred_kernel_and_target(data):
    X, y, X_new = data
    rate = sigma_to("scikit-learn", SIGMA)
    centerer = KernelCenterer().fit(rbf_kernel(X, gamma=rate))
    centred = centerer.transform(rbf_kernel(X, gamma=rate))
    peer = KernelRidge(alpha=gamma_to("scikit-learn", GAMMA), kernel="precomputed").fit(centred, y - y.mean())
    theirs = peer.predict(centerer.transform(rbf_kernel(X_new, X, gamma=rate))) + y.mean()
    assert_allclose(ours(X, y, X_new), theirs, rtol=1e-8)


def test_the_gaussian_process_kernel(data):
    X, _, X_new = data
    scale = sigma_to("scikit-learn Gaussian process", SIGMA)
    assert_allclose(RBF(SIGMA)(X, X_new), kernels.RBF(scale)(X, X_new), atol=1e-13)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_widths_of_columns_are_converted_one_by_one(name):
    widths = (0.5, 1.0, 40.0)
    assert sigma_to(name, widths) == tuple(sigma_to(name, one) for one in widths)
    assert sigma_from(name, list(widths)) == tuple(sigma_from(name, one) for one in widths)


def test_the_gaussian_process_posterior_mean(data):
    """Without a bias the machine is the process; symmetric data with an odd target have bias zero."""
    X, _, X_new = data
    X = np.vstack([X, -X])
    y = np.sin(2.0 * X[:, 0]) + X[:, 1]
    name = "scikit-learn Gaussian process"
    peer = GaussianProcessRegressor(
        kernels.RBF(sigma_to(name, SIGMA)), alpha=gamma_to(name, GAMMA), optimizer=None
    ).fit(X, y)
    assert_allclose(ours(X, y, X_new), peer.predict(X_new), atol=1e-9)


def test_linear_svr_with_squared_loss(data):
    X, y, X_new = data
    C = gamma_to("scikit-learn SVM, squared loss", GAMMA)
    peer = LinearSVR(
        loss="squared_epsilon_insensitive",
        epsilon=0.0,
        C=C,
        dual=False,
        intercept_scaling=1e4,
        tol=1e-14,
        max_iter=9999,
    ).fit(X, y)
    model = LSSVMRegressor(Linear(), gamma=gamma_from("scikit-learn SVM, squared loss", C)).fit(X, y)
    assert_allclose(model.predict(X_new), peer.predict(X_new), atol=1e-5)


# ---- papers and other toolboxes, by what they minimise -------------------------------------------


@pytest.mark.parametrize("name", ["Pelckmans2005", "Suykens2002", "Carvalho2006"])
def test_papers_with_our_objective(data, name):
    X, y, X_new = data
    K, K_new = RBF(SIGMA)(X), RBF(SIGMA)(X_new, X)
    theirs = gamma_to(name, GAMMA)
    assert_allclose(ours(X, y, X_new), minimised(K, K_new, y, 0.5 * theirs), atol=1e-8)
    assert sigma_to(name, SIGMA) == SIGMA


def test_cawley_2004_weighs_without_the_half(data):
    """:equation [Cawley2002]_ (1): against the minimum of the printed objective.
    :equation [Cawley2004]_ (1): the same with a kernel.
    """
    X, y, X_new = data
    K, K_new = RBF(SIGMA)(X), RBF(SIGMA)(X_new, X)
    theirs = 1.9  # 1/2 w'w + gamma_003 sum e^2
    found = ours(X, y, X_new, gamma=gamma_from("Cawley2004", theirs))
    assert_allclose(found, minimised(K, K_new, y, theirs), atol=1e-8)


def test_cawley_2002_divides_by_the_number_of_rows(data):
    """:equation [Cawley2002]_ (3): against the minimum of the printed objective."""
    X, y, X_new = data
    K, K_new = RBF(SIGMA)(X), RBF(SIGMA)(X_new, X)
    theirs = 40.0  # 1/2 w'w + gamma_000/N sum e^2
    found = ours(X, y, X_new, gamma=gamma_from("Cawley2002", theirs, n=30))
    assert_allclose(found, minimised(K, K_new, y, theirs / 30), atol=1e-8)


def bordered(K, y, diagonal):
    n = len(y)
    A = np.block([[K + diagonal * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    solution = np.linalg.solve(A, np.append(y, 0.0))
    return solution[:n], solution[n]


def test_the_diagonal_cawley_prints_belongs_to_our_objective(data):
    """gamma sum e^2 gives K + I/(2 gamma); the printed K + I/gamma solves the objective with the half.

    :equation [Cawley2002]_ (2): the diagonal that belongs to (1), and the printed one that does not.
    """
    X, y, X_new = data
    K, K_new = RBF(SIGMA)(X), RBF(SIGMA)(X_new, X)
    weight = 1.9

    def predicted(diagonal):
        alpha, b = bordered(K, y, diagonal)
        return K_new @ alpha + b

    objective = minimised(K, K_new, y, weight)
    assert_allclose(predicted(1.0 / (2.0 * weight)), objective, atol=1e-8)
    assert np.abs(predicted(1.0 / weight) - objective).max() > 1e-3
    assert_allclose(predicted(1.0 / weight), minimised(K, K_new, y, 0.5 * weight), atol=1e-8)


def test_ls_svmlab_code_and_help_text(data):
    X, y, X_new = data
    d2 = np.square(X_new[:, None] - X[None]).sum(axis=2)
    sig2 = 0.9
    assert_allclose(RBF(sigma_from("LS-SVMlab", sig2))(X_new, X), np.exp(-d2 / (2.0 * sig2)), atol=1e-13)
    assert_allclose(RBF(sigma_from("LS-SVMlab, help text", sig2))(X_new, X), np.exp(-d2 / sig2), atol=1e-13)
    for name, factor in (("LS-SVMlab", 2.0), ("LS-SVMlab, help text", 1.0)):
        gam = gamma_to(name, GAMMA)  # K + I/gam on the diagonal
        K = np.exp(-np.square(X[:, None] - X[None]).sum(axis=2) / (factor * sig2))
        alpha, b = bordered(K, y, 1.0 / gam)
        theirs = np.exp(-d2 / (factor * sig2)) @ alpha + b
        assert_allclose(ours(X, y, X_new, sigma=sigma_from(name, sig2)), theirs, atol=1e-9)


def test_kernlab_divides_by_the_number_of_rows(data):
    """tau/2 w'w + 1/(2N) sum e^2, and exp(-sigma d^2)."""
    X, y, X_new = data
    tau, rate = 0.02, 0.6
    K = np.exp(-rate * np.square(X[:, None] - X[None]).sum(axis=2))
    K_new = np.exp(-rate * np.square(X_new[:, None] - X[None]).sum(axis=2))
    theirs = minimised(K, K_new, y, 1.0 / (2.0 * 30 * tau))
    found = ours(X, y, X_new, gamma=gamma_from("kernlab", tau, n=30), sigma=sigma_from("kernlab", rate))
    assert_allclose(found, theirs, atol=1e-8)


# ---- laws ----------------------------------------------------------------------------------------

numbers = st.floats(1e-12, 1e12)


@pytest.mark.parametrize("name", CONVENTIONS)
@settings(derandomize=True, deadline=None, max_examples=60)
@given(value=numbers, n=st.integers(1, 10**6))
def test_round_trips(name, value, n):
    assert_allclose(gamma_from(name, gamma_to(name, value, n), n), value, rtol=1e-13)
    assert_allclose(gamma_to(name, gamma_from(name, value, n), n), value, rtol=1e-13)
    assert_allclose(sigma_from(name, sigma_to(name, value)), value, rtol=1e-13)
    assert_allclose(sigma_to(name, sigma_from(name, value)), value, rtol=1e-13)


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [gamma_from, gamma_to, sigma_from, sigma_to])
@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf, "1", None, True, [], [1.0, 0.0], [[1.0]], ["1"]])
def test_numbers_that_are_not_positive(convert, wrong):
    with pytest.raises(DeclarationError, match="positive"):
        convert("scikit-learn", wrong)


# ---- documentation -------------------------------------------------------------------------------


def test_the_page_shows_the_table():
    page = (Path(__file__).parents[2] / "docs" / "conventions.md").read_text(encoding="utf-8")
    assert f"\n\n{table()}\n\n" in page
    assert len(table().splitlines()) == 2 + len(CONVENTIONS)
