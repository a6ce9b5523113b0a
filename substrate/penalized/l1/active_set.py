r"""The L1 substrate by an active set that is identified, solved exactly and checked.

.. math:: \min_{a, b} \; \tfrac12 \|y - \Phi a - b 1\|^2 + \zeta \|a\|_1 \quad \text{s.t.} \quad 1^T a = 0

([Pelckmans2005]_ eq. (16); :math:`\Phi = K`, or K with rows for further points). With P the centring projection and
:math:`c = \Phi^T P (y - \Phi a)`, a is optimal when some :math:`\nu` satisfies

.. math:: c_i - \nu = \zeta \operatorname{sign}(a_i) \;\; (a_i \ne 0), \qquad |c_i - \nu| \le \zeta \;\; (a_i = 0).

With a ridge, :math:`\tfrac{\tau}{2} w^T w = \tfrac{\tau}{2} a^T K a` is added, for a square :math:`\Phi = K` only. It
is least squares on more rows, those of :math:`\sqrt\tau R` with :math:`K = R^T R` and the target 0, which are not
centred: :math:`c = K (P (y - K a) - \tau a)`, and the rest is as it is. At a = 0 nothing changes, so
:math:`\zeta_{max}` does not depend on the ridge; at :math:`\zeta \to 0` the machine is the LS-SVM of
:math:`\gamma = 1/\tau`.

On a set of signed atoms the conditions are linear: they are solved through a QR factorisation of the active columns, a
step that would change a sign is cut where the first coefficient vanishes and that atom leaves; once the signs agree,
the atom that violates its bound most enters. Where its column depends on those in use, the coefficients move along the
null vector, along which the errors are constant and the 1-norm falls, until one of them vanishes. The objective
decreases at every step, so no set of signed atoms recurs; one that does by rounding ends the trial of the atom that
caused it. Zeros are exact because their atoms are not in the set, not because a number was small.
:math:`\zeta_{max} = (\max c - \min c)/2` at a = 0 is the smallest zeta with the solution a = 0. A zeta below it by less
than the rounding of the correlations has that solution too, so that zero is zero on every machine.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rounding import relative_rounding
from substrate.errors import SolverError
from substrate.threads import blas_threads

__all__ = ["VIOLATION", "ActiveSetSolution", "correlation_noise", "l1_rows", "root_of", "solve_l1", "zeta_max"]

#: Relative excess over zeta at which an atom counts as violating its bound.
VIOLATION = 1e-11
#: Relative size of a pivot at which a column counts as dependent on those before it.
_DEPENDENT = 1e-13


@dataclass(frozen=True, slots=True)
class ActiveSetSolution:
    """Coefficients with exact zeros, bias, the multiplier nu of 1'a = 0, and the number of steps."""

    coefficients: Array
    bias: float
    multiplier: float
    steps: int


def zeta_max(Phi: Array, y: Array) -> float:
    """Return the smallest zeta at which a = 0 is optimal."""
    c = Phi.T @ (y - y.mean())
    return float(c.max() - c.min()) / 2.0


def correlation_noise(Phi: Array, target: Array) -> float:
    """Bound the rounding of a correlation of a column of ``Phi`` with the centred target.

    A sum of n products has an error of at most n eps times the sum of their sizes, typically the root of n; that sum
    is at most the root of n times the largest entry of ``Phi`` and the length of the target.
    """
    return float(relative_rounding(Phi.shape[0]) * np.abs(Phi).max(initial=0.0) * np.linalg.norm(target))


def solve_l1(
    Phi: Array, y: Array, zeta: float, max_steps: int | None = None, *, ridge: float = 0.0
) -> ActiveSetSolution:
    """Solve for one zeta > 0, from a = 0; ``ridge`` weighs half of a'Ka, where Phi is a kernel matrix K.

    :equation [Pelckmans2005]_ (16): its active set
    """
    n_atoms = Phi.shape[1]
    limit = 20 * n_atoms + 100 if max_steps is None else max_steps
    with blas_threads(n_atoms):
        problem = _Problem.of(Phi, y, zeta) if ridge == 0.0 else _Problem.with_ridge(Phi, y, zeta, ridge)
        a, signs, nu = np.zeros(n_atoms), np.zeros(n_atoms), problem.start
        c, visited = problem.c0, {signs.tobytes()}
        refused: NDArray[np.bool_] = np.zeros(n_atoms, dtype=bool)
        for step in range(limit):
            newcomers = problem.violators(c, nu, signs, refused)
            if not newcomers:
                return ActiveSetSolution(a, float(y.mean() - problem.mean @ a), nu, step)
            trial = signs.copy()
            for atom, sign in newcomers:
                trial[atom] = sign
            settled = problem.settle(a, trial)
            if settled[1].tobytes() in visited:  # only rounding brings a set back
                refused[[atom for atom, _ in newcomers]] = True
                continue
            a, signs, nu = settled
            visited.add(signs.tobytes())
            refused[:] = False
            c = problem.correlations(a)
    raise SolverError(
        f"the active set did not settle within {limit} steps; use a conic solver for this zeta, or a larger zeta"
    )


@dataclass(frozen=True, slots=True)
class _Problem:
    """The data of one solve: atoms and their means, centred target, its correlations c0 and their noise, zeta.

    Of a step, the atoms less ``offset`` count. The first ``rows`` rows have a bias; with a ridge there are more.
    """

    Phi: Array
    mean: Array
    target: Array
    c0: Array
    noise: float
    zeta: float
    offset: Array
    rows: int

    @classmethod
    def of(cls, Phi: Array, y: Array, zeta: float) -> "_Problem":
        target, mean = y - y.mean(), Phi.mean(axis=0)
        return cls(
            Phi=Phi,
            mean=mean,
            target=target,
            c0=Phi.T @ target,
            noise=correlation_noise(Phi, target),
            zeta=zeta,
            offset=mean,
            rows=y.size,
        )

    @classmethod
    def with_ridge(cls, K: Array, y: Array, zeta: float, ridge: float) -> "_Problem":
        """Return the same on stacked rows; c0 is that without a ridge."""
        target, mean = y - y.mean(), K.mean(axis=0)
        stacked = np.vstack([K - mean, np.sqrt(ridge) * root_of(K)])
        noise, zeros = correlation_noise(K, target), np.zeros(y.size)
        return cls(
            Phi=stacked,
            mean=mean,
            target=np.append(target, zeros),
            c0=K.T @ target,
            noise=noise,
            zeta=zeta,
            offset=zeros,
            rows=y.size,
        )

    @property
    def start(self) -> float:
        """nu at a = 0, midway between the extreme correlations."""
        return float(self.c0.max() + self.c0.min()) / 2.0

    def correlations(self, a: Array) -> Array:
        """Return c = Phi'P(y - Phi a)."""
        (used,) = np.nonzero(a)
        e = self.target - self.Phi[:, used] @ a[used]
        if e.size > self.rows:
            return np.asarray(self.Phi.T @ np.append(e[: self.rows] - e[: self.rows].mean(), e[self.rows :]))
        return np.asarray(self.Phi.T @ (e - e.mean()))

    def violators(self, c: Array, nu: float, signs: Array, refused: NDArray[np.bool_]) -> list[tuple[int, float]]:
        """Return the atom that exceeds its bound most, with its sign; initially one from each end, since they must
        balance.
        """
        bound = self.zeta + VIOLATION * max(float(np.abs(self.c0).max()), self.zeta)
        if not signs.any():
            bound = max(bound, self.zeta + self.noise)
            high, low = int(c.argmax()), int(c.argmin())
            new = (c[high] - c[low]) / 2.0 > bound and not refused[high]
            return [(high, 1.0), (low, -1.0)] if new else []
        excess = np.where((signs == 0.0) & ~refused, c - nu, 0.0)
        worst = int(np.abs(excess).argmax())
        return [(worst, float(np.sign(excess[worst])))] if abs(excess[worst]) > bound else []

    def settle(self, a: Array, signs: Array) -> tuple[Array, Array, float]:
        """Solve on the active atoms, dropping those whose sign would change, until all signs agree."""
        a, signs = a.copy(), signs.copy()
        while signs.any():
            (active,) = np.nonzero(signs)
            coefficients, s = a[active], signs[active]
            step, nu = self._step(active, coefficients, s)
            shrinking = (step * s < 0.0) & ((coefficients + step) * s <= 0.0)
            if nu is None:
                shrinking = step * s < 0.0
            elif not shrinking.any():
                a[active] = coefficients + step
                return a, signs, nu
            # the step to the first zero coefficient; one that has just entered is zero and may leave at once
            with np.errstate(divide="ignore", invalid="ignore"):
                reach = np.where(shrinking, -coefficients / step, np.inf)
            first = int(reach.argmin())
            a[active] = coefficients + reach[first] * step
            a[active[first]] = signs[active[first]] = 0.0
        return np.zeros_like(a), signs, self.start

    def _step(self, active: Any, coefficients: Array, s: Array) -> tuple[Array, float | None]:
        """Return the solution on the active atoms and its nu; for dependent columns, a descent along a null vector."""
        from scipy.linalg import solve_triangular

        m = active.size
        C = self.Phi[:, active] - self.offset[active]
        # a row of equal entries changes nothing where 1'a = 0, and makes the columns independent wherever a is unique
        B = np.vstack([C, np.full((1, m), max(float(np.abs(C).max()), 1e-300))])
        R: Array = np.asarray(np.linalg.qr(B, mode="r"))
        pivots = np.abs(np.diagonal(R))
        if R.shape[0] < m or pivots.min() <= _DEPENDENT * pivots.max():
            null = np.linalg.svd(R, full_matrices=True)[2][-1]
            return (-null if s @ null > 0.0 else null), None
        step, nu, ones = np.zeros(m), 0.0, np.ones(m)
        for _ in range(2):  # once more from the first solution: refinement
            e = self.target - C @ (coefficients + step)
            right_sides = np.column_stack([C.T @ e - self.zeta * s, ones])
            solved = solve_triangular(R, solve_triangular(R, right_sides, trans="T"))
            nu = float((solved[:, 0].sum() + (coefficients + step).sum()) / solved[:, 1].sum())
            step = step + solved[:, 0] - nu * solved[:, 1]
        return step, nu


def root_of(K: Array) -> Array:
    """Return R with R'R = K, of a symmetric matrix without its negative eigenvalues."""
    values, vectors = np.linalg.eigh(K)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def l1_rows(
    Phi: Array, y: Array, zeta: float, a: Array, b: float, tolerance: float = 1e-8, *, ridge: float = 0.0
) -> tuple[Row, ...]:
    """Return the subgradient condition with the best nu, 1'a = 0 and 1'e = 0, recomputed from data and solution."""
    e = y - Phi @ a - b
    centred = y - y.mean() - Phi @ a  # without b, which may be large relative to the rest
    c = Phi.T @ (centred - centred.mean())
    if ridge > 0.0:
        c = c - ridge * (Phi.T @ a)
    support = a != 0.0
    scale = zeta + float(np.abs(Phi.T @ (y - y.mean())).max(initial=0.0))
    if support.any():
        nu = float(np.mean(c[support] - zeta * np.sign(a[support])))
        on = float(np.abs(c[support] - nu - zeta * np.sign(a[support])).max())
    else:
        nu, on = float(c.max() + c.min()) / 2.0, 0.0
    excess = float(np.max(np.abs(c[~support] - nu) - zeta, initial=0.0))
    size = float(np.abs(a).sum())
    return (
        Row(
            name="subgradient on the support",
            value=on,
            scale=scale,
            tolerance=tolerance,
            formula="max |c_i - nu - zeta sign(a_i)|",
        ),
        Row(
            name="subgradient off the support",
            value=excess,
            scale=scale,
            tolerance=tolerance,
            formula="max (|c_i - nu| - zeta)",
        ),
        Row(name="1'alpha = 0", value=float(abs(a.sum())), scale=size, tolerance=tolerance, formula="|1'alpha|"),
        Row(
            name="1'e = 0",
            value=float(abs(e.sum())),
            scale=float(np.abs(y).sum() + np.abs(y - e).sum()),
            tolerance=tolerance,
            formula="|1'e|",
        ),
    )
