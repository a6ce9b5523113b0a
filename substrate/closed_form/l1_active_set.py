r"""The L1 substrate by an active set that is identified, solved exactly and checked.

.. math:: \min_{a, b} \; \tfrac12 \|y - \Phi a - b 1\|^2 + \zeta \|a\|_1 \quad \text{s.t.} \quad 1^T a = 0

([Pelckmans2005]_ eq. (16); :math:`\Phi = K`, or K with rows for further points). With P the centring projection and
:math:`c = \Phi^T P (y - \Phi a)`, a is optimal when some :math:`\nu` satisfies

.. math:: c_i - \nu = \zeta \operatorname{sign}(a_i) \;\; (a_i \ne 0), \qquad |c_i - \nu| \le \zeta \;\; (a_i = 0).

On a set of signed atoms the conditions are linear: they are solved through a QR factorisation of the active columns, a
step that would change a sign is cut where the first coefficient vanishes and that atom leaves, and when the signs agree
the atom that violates its bound most enters. The objective decreases at every step, so no set of signed atoms comes
back; zeros are zeros because their atoms are not in the set, not because a number was small.
:math:`\zeta_{max} = (\max c - \min c)/2` at a = 0 is the smallest zeta with the solution a = 0.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.errors import SolverError

__all__ = ["ActiveSetSolution", "l1_rows", "solve_l1", "zeta_max"]

#: Relative excess over zeta at which an atom is said to violate its bound.
_VIOLATION = 1e-11


@dataclass(frozen=True, slots=True)
class ActiveSetSolution:
    """Coefficients with exact zeros, bias, the multiplier nu of 1'a = 0, and the number of steps."""

    coefficients: Array
    bias: float
    multiplier: float
    steps: int


def zeta_max(Phi: Array, y: Array) -> float:
    """The smallest zeta at which a = 0 is optimal."""
    c = Phi.T @ (y - y.mean())
    return float(c.max() - c.min()) / 2.0


def solve_l1(Phi: Array, y: Array, zeta: float, max_steps: int | None = None) -> ActiveSetSolution:
    """Solve for one zeta > 0, from a = 0."""
    n_atoms = Phi.shape[1]
    mean = Phi.mean(axis=0)
    target = y - y.mean()
    c0 = Phi.T @ target
    a = np.zeros(n_atoms)
    signs = np.zeros(n_atoms)
    c = c0.copy()
    limit = 20 * n_atoms + 100 if max_steps is None else max_steps
    scale = max(float(np.abs(c0).max()), zeta)
    nu = float(c.max() + c.min()) / 2.0
    for step in range(limit):
        newcomers = _violators(c, nu, zeta, signs, scale)
        if not newcomers:
            return ActiveSetSolution(a, float(y.mean() - mean @ a), nu, step)
        for atom, sign in newcomers:
            signs[atom] = sign
        a, signs, nu = _settle(Phi, mean, c0, a, signs, zeta)
        c = Phi.T @ (target - Phi @ a + mean @ a)
    raise SolverError(
        f"the active set did not settle within {limit} steps; use a conic solver for this zeta, or a larger zeta"
    )


def _violators(c: Array, nu: float, zeta: float, signs: Array, scale: float) -> list[tuple[int, float]]:
    """The atom that exceeds its bound most, with its sign; at the start one from each end, since they must balance."""
    excess = c - nu
    free = signs == 0.0
    candidate = np.where(free, np.abs(excess), -np.inf)
    if not signs.any():
        high, low = int(c.argmax()), int(c.argmin())
        return [(high, 1.0), (low, -1.0)] if (c[high] - c[low]) / 2.0 > zeta + _VIOLATION * scale else []
    worst = int(candidate.argmax())
    if candidate[worst] <= zeta + _VIOLATION * scale:
        return []
    return [(worst, float(np.sign(excess[worst])))]


def _settle(Phi: Array, mean: Array, c0: Array, a: Array, signs: Array, zeta: float) -> tuple[Array, Array, float]:
    """Solve on the active atoms, dropping those whose sign would change, until all signs agree."""
    while True:
        (active,) = np.nonzero(signs)
        wanted, nu = _reduced(Phi[:, active] - mean[active], c0[active] - zeta * signs[active])
        crossing = (wanted * signs[active] < 0.0) | ((wanted == 0.0) & (a[active] != 0.0))
        if not crossing.any():
            a = np.zeros_like(a)
            a[active] = wanted
            return a, signs, nu
        here = a[active]
        # how far towards the wanted point until the first coefficient vanishes; an atom that just entered with the
        # wrong sign stands at zero and leaves at once
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(crossing, here / (here - wanted), np.inf)
        reach = np.where(crossing & (here == 0.0), 0.0, reach)
        first = int(reach.argmin())
        a = a.copy()
        a[active] = here + reach[first] * (wanted - here)
        a[active[first]] = 0.0
        signs = signs.copy()
        signs[active[first]] = 0.0
        if not signs.any():
            return np.zeros_like(a), signs, float(c0.max() + c0.min()) / 2.0


def _reduced(columns: Array, right: Array) -> tuple[Array, float]:
    """a and nu with (C'C) a + nu 1 = right, 1'a = 0, for the centred active columns C."""
    from scipy.linalg import solve_triangular

    m = right.size
    R: Array = np.asarray(np.linalg.qr(columns, mode="r"))
    diagonal = np.abs(np.diagonal(R))
    if R.shape[0] < m or diagonal.min() <= 1e-13 * diagonal.max():
        system = np.block([[columns.T @ columns, np.ones((m, 1))], [np.ones((1, m)), np.zeros((1, 1))]])
        both = np.linalg.lstsq(system, np.append(right, 0.0), rcond=None)[0]
        return both[:-1], float(both[-1])
    inner = solve_triangular(R, np.column_stack([right, np.ones(m)]), trans="T")
    outer = solve_triangular(R, inner)
    nu = float(outer[:, 0].sum() / outer[:, 1].sum())
    return outer[:, 0] - nu * outer[:, 1], nu


def l1_rows(Phi: Array, y: Array, zeta: float, a: Array, b: float, tolerance: float = 1e-8) -> tuple[Row, ...]:
    """The subgradient condition with the best nu, 1'a = 0 and 1'e = 0, recomputed from data and solution."""
    e = y - Phi @ a - b
    c = Phi.T @ (e - e.mean())
    support = a != 0.0
    scale = zeta + float(np.abs(Phi.T @ (y - y.mean())).max(initial=0.0))
    if support.any():
        nu = float(np.mean(c[support] - zeta * np.sign(a[support])))
        on = float(np.abs(c[support] - nu - zeta * np.sign(a[support])).max())
    else:
        nu, on = float(c.max() + c.min()) / 2.0, 0.0
    off = float(np.max(np.abs(c[~support] - nu) - zeta, initial=0.0))
    size = float(np.abs(a).sum())
    return (
        Row("subgradient on the support", on, scale, tolerance, "max |c_i - nu - zeta sign(a_i)|"),
        Row("subgradient off the support", off, scale, tolerance, "max (|c_i - nu| - zeta)"),
        Row("1'alpha = 0", float(abs(a.sum())), size, tolerance, "|1'alpha|"),
        Row("1'e = 0", float(abs(e.sum())), float(np.abs(y).sum() + np.abs(y - e).sum()), tolerance, "|1'e|"),
    )
