"""The L1 substrate and maximal variation against cvxpy with Clarabel, and their whole paths."""

import warnings
from collections.abc import Callable, Iterator

import cvxpy as cp
import numpy as np
from sklearn.linear_model import lars_path

from benchmarks.data import regression_data
from benchmarks.measure import Row, certified, compare
from problems import L1SubstrateRegressor, MaximalVariationRegressor
from substrate.arrays import Array
from substrate.datasets import additive_function
from substrate.fits.coordinates import shared_coordinates
from substrate.fits.paths import l1_path, variation_path
from substrate.fits.variation import divide_from_right
from substrate.kernels import RBF

__all__ = ["rows"]

KERNEL, PEER = RBF(10.0**0.5), "cvxpy with Clarabel"
#: zeta as a share of the smallest one that leaves no support values, and the least ratio for each N.
SHARE, L1 = 0.01, {300: 1.0, 1000: 5.0}
N, D, WEIGHTS = 100, 25, (1.0, 30.0, 300.0)
#: Width and rho of the one solve that the whole path is compared with.
PATH_WIDTH, PATH_RHO = 0.5, 10.0


def quietly(call: Callable[[], object]) -> Callable[[], object]:
    """Return a call without the warnings of other packages."""

    def silent() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()

    return silent


def l1_problem(X: Array, y: Array, zeta: float) -> object:
    """Solve the L1 substrate as one writes it in cvxpy."""
    a, b = cp.Variable(y.size), cp.Variable()
    cost = 0.5 * cp.sum_squares(y - KERNEL(X) @ a - b) + zeta * cp.norm1(a)
    return cp.Problem(cp.Minimize(cost), [cp.sum(a) == 0]).solve(solver="CLARABEL")


def variation_problem(matrices: list[Array], y: Array, rho: float) -> object:
    """Solve maximal variation as one writes it in cvxpy."""
    a, b, t = cp.Variable(y.size), cp.Variable(), cp.Variable(len(matrices))
    cost = 0.5 * cp.sum_squares(np.sum(matrices, axis=0) @ a + b - y) + rho * cp.sum(t)
    bounds = [cp.abs(matrix @ a) <= t[column] for column, matrix in enumerate(matrices)]
    return cp.Problem(cp.Minimize(cost), [cp.sum(a) == 0, *bounds]).solve(solver="CLARABEL")


def component_matrices(X: Array, width: float) -> list[Array]:
    """Return the kernel matrix of every column."""
    return [RBF(width)(X[:, [column]]) for column in range(X.shape[1])]


def rows() -> Iterator[Row]:
    """Yield single solves, then paths."""
    for n, least in L1.items():
        X, y = regression_data(n)
        correlations = KERNEL(X) @ (y - y.mean())
        zeta = SHARE * float(np.ptp(correlations)) / 2.0
        ours = lambda X=X, y=y, zeta=zeta: certified(L1SubstrateRegressor(KERNEL, zeta=zeta).fit(X, y))  # noqa: E731
        peer = quietly(lambda X=X, y=y, zeta=zeta: l1_problem(X, y, zeta))  # type: ignore[misc]
        yield compare(f"L1, N = {n}", ours, PEER, peer, least=least)
    X, y = additive_function(N, D, random_state=0)
    for rho in WEIGHTS:
        ours = lambda rho=rho: certified(MaximalVariationRegressor(RBF(1.0), rho=rho).fit(X, y))  # noqa: E731
        peer = quietly(lambda rho=rho: variation_problem(component_matrices(X, 1.0), y, rho))  # type: ignore[misc]
        yield compare(f"maximal variation, N = {N}, d = {D}, rho = {rho:g}", ours, PEER, peer, least=8.0)
    matrices = component_matrices(X, PATH_WIDTH)

    def follow_rho() -> object:
        shared = shared_coordinates(matrices)
        return variation_path(list(divide_from_right(shared.parts, shared.metric)), shared.targets(y))

    peer = quietly(lambda: variation_problem(matrices, y, PATH_RHO))
    yield compare(f"path of rho, N = {N}, d = {D}", follow_rho, "one raw solve", peer, most=1.0)
    X_path, y_path = regression_data(1000)
    K = KERNEL(X_path)
    lowest = float(l1_path(K, y_path).values[0])
    # its default limit, 500 steps, would end it long before this zeta
    options = {"method": "lasso", "alpha_min": lowest / y_path.size, "max_iter": 10 * y_path.size + 1000}
    peer = quietly(lambda: lars_path(K - K.mean(axis=0), y_path - y_path.mean(), **options))
    yield compare("path of zeta, N = 1000", lambda: l1_path(K, y_path), "lars_path to the same zeta", peer, most=1.5)
