"""Large reduced bases: conjugate gradients preconditioned by a sample of rows, against the direct solve."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.data import COLUMNS, regression_data
from benchmarks.processes import complete_each
from benchmarks.table import Table
from substrate.arrays import Array
from substrate.kernels import RBF
from substrate.kernels.base import symmetric_matrix
from substrate.reduced.features import EigenFeatures, eigen_features
from substrate.reduced.gradients import IteratedSolution, solve_by_gradients
from substrate.reduced.moments import Origin, origin_of
from substrate.reduced.rows import KernelRows
from substrate.reduced.solution import ReducedSolution, solve_reduced
from substrate.reduced.spectrum import reduced_spectrum
from substrate.reduced.statistic import accumulate

__all__ = ["run"]

WIDTHS = (10.0**0.5, 8.0)
GAMMAS = (1.0, 100.0)
#: Rows, in which both ways are linear, and basis vectors.
FULL = (20_000, (500, 1000, 2000, 4000))
QUICK = (20_000, (250, 500))
#: Vectors from which there is one width: each case takes minutes, and the iteration ends after one step at any.
LARGE = 4000
#: Rows on which the predictions of both are compared; they are not among those fitted.
FRESH = 2000
CLOSE = 1e-6


class Problem(NamedTuple):
    """Rows against a basis whose kernel matrix is decomposed, which both ways need."""

    rows: KernelRows
    features: EigenFeatures
    origin: Origin
    K: Array

    def direct(self, lam: float) -> tuple[ReducedSolution, str]:
        statistic = accumulate(self.rows, self.features, self.origin, lam)
        spectrum = reduced_spectrum(self.features, statistic.origin, statistic.total, statistic.error)
        return solve_reduced(self.rows, spectrum, lam, self.K, sums=statistic.sums), statistic.method

    def iterate(self, lam: float) -> IteratedSolution:
        return solve_by_gradients(self.rows, self.features, self.origin, lam, self.K)


def problem(n: int, n_basis: int, sigma: float) -> tuple[Problem, Array]:
    """Return the problem, and kernel values of fresh rows."""
    X, y = regression_data(n + FRESH)
    points = X[np.random.default_rng(1).choice(n, size=n_basis, replace=False)]
    kernel = RBF(sigma)
    rows, K = KernelRows.of(kernel, X[:n], points, y[:n, None]), symmetric_matrix(kernel, points)
    problem_made = Problem(rows, eigen_features(K), origin_of(K, rows.target_summary(), 1.0), K)
    return problem_made, rows.values.matrix(X[n:])


def time_call(call: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    start = time.process_time()
    return call(*arguments), time.process_time() - start


class Case(NamedTuple):
    """Rows, vectors of the basis, and the kernel's width and gamma."""

    n: int
    n_basis: int
    sigma: float
    gamma: float


def measure(case: Case) -> tuple[str, ...]:
    """Return a row of the table."""
    problem_made, fresh = problem(case.n, case.n_basis, case.sigma)
    (direct, method), seconds = time_call(problem_made.direct, 1.0 / case.gamma)
    iterated, seconds_iterated = time_call(problem_made.iterate, 1.0 / case.gamma)
    reference = fresh @ direct.coefficients + direct.bias
    distance = np.linalg.norm(fresh @ iterated.coefficients + iterated.bias - reference)
    difference = float(distance / np.linalg.norm(reference - reference.mean()))
    assert iterated.is_converged, "the certificate of the iteration does not hold"
    assert difference <= CLOSE, f"predictions differ by {difference:.1e}"
    return (
        str(case.n),
        str(case.n_basis),
        f"{case.sigma:.3g}",
        f"{case.gamma:g}",
        method,
        f"{seconds:.1f}",
        str(iterated.iterations),
        f"{seconds_iterated:.1f}",
        f"{difference:.0e}",
        f"{seconds / seconds_iterated:.2f}",
    )


def run(quick: bool) -> Table:
    n, sizes = QUICK if quick else FULL
    cases = [
        Case(n, n_basis, sigma, gamma)
        for n_basis in sizes
        for sigma in (WIDTHS if n_basis < LARGE else WIDTHS[:1])
        for gamma in GAMMAS
    ]
    measured_rows = dict(complete_each(measure, sorted(cases, key=lambda case: -case.n_basis)))
    rows = [measured_rows[case] for case in cases]
    return Table(
        "Large reduced bases: conjugate gradients against the direct solve",
        f"One gamma on a random basis, {COLUMNS} columns, RBF kernel; the decomposition of the kernel matrix of the "
        "basis, which both need, is not counted. Conjugate gradients end when their certificate holds, and predict "
        f"fresh rows within {CLOSE:g} of the direct solve, relatively. The direct solve gives leave-one-out and every "
        f"other gamma as well. CPU seconds of one run each, in turn, a case on every core; from {LARGE} vectors on one "
        "width.",
        (
            "rows",
            "basis",
            "sigma",
            "gamma",
            "sums",
            "direct, CPU s",
            "iterations",
            "conjugate gradients, CPU s",
            "difference",
            "times faster",
        ),
        tuple(rows),
    )
