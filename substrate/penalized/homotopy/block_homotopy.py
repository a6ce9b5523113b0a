r"""The common core of all paths: a quadratic plus rho times the maxima over blocks of rows, for growing rho.

.. math:: \min_u \; \tfrac12 \|u - \tilde y\|^2 + \rho \sum_l \max_{i \in l} M_i u
   \qquad \Longleftrightarrow \qquad
   \min_\eta \; \tfrac12 \|\tilde y - M^T \eta\|^2 \;\; \text{s.t.} \;\; \eta \ge 0, \;\; \sum_{i \in l} \eta_i = \rho .

The rows :math:`M_i = s_i B_{k(i)}` carry signs. Both signs of the rows of :math:`B^l` in block l make the maximum
:math:`\|B^l u\|_\infty`: maximal variation ([Pelckmans2005]_ eq. (25)). The plus signs in one block and the minus signs
in another make L1 with the equality :math:`1^T a = 0` (eq. (16)): then :math:`\|a\|_1 = 2 \rho`, and the levels
:math:`t_\pm` of the two maxima give :math:`\zeta = (t_+ + t_-)/2` and the multiplier :math:`\nu = (t_+ - t_-)/2`.

On a segment each block has rows at its level :math:`t_l`, one of them its reference. With D the differences of the
others from their references, q the sum of the references and :math:`\eta` the multipliers of the others,

.. math:: u = \tilde y - \rho q - D^T \eta, \qquad D u = 0
   \quad \Rightarrow \quad \dot u = -(I - D^+ D) q, \qquad \dot \eta = -(D^T)^+ q ,

all affine in rho. From rho = 0, where :math:`u = \tilde y` and every block has one row, a segment ends where a row
reaches its level and enters, or where a multiplier vanishes and its row leaves. Multipliers are updated, not solved for
again: where rows nearly depend on each other, a rounding error of u would become a large one of the multipliers. Rows
that depend on active ones have no slope along the segment and are ignored. Where no step is made, a candidate is drawn
at random, so that no cycle of exchanges continues for ever.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.compilation import choose_twin
from substrate.penalized.homotopy import block_basis
from substrate.penalized.homotopy.block_steps import END, open_rows, walk
from substrate.penalized.homotopy.ratio_test import FLAT
from substrate.penalized.homotopy.signed_rows import Knots, SignedProduct, SignedRows

__all__ = ["BlockPath"]

#: Exchanges between two corrections of the multipliers, and between two looks at the gap, where the rows are few.
_RENEW, _SELDOM, _LOOK = 100, 50, 20
#: Entries of the active rows up to which their factors are computed again at every look, and up to which that is done
#: where rounding has begun to show: it takes as long as a few steps, and as twenty.
_FEW, _SOME = 2500, 10000
#: The path ends where the levels have fallen to this share of their initial values.
_LEVEL = 1e-12
#: Rounding of the factors, as random vectors see it, from which on they are computed again: of the rows, of the
#: orthogonality of their basis, and of the dual basis, which is refined wherever it is used; and from which on that of
#: the last two has begun to show.
_DRIFT, _SHOWS = (1e-12, 1e-11, 1e-3), (1e-13, 1e-9)


class BlockPath:
    """The point that follows the path. References come first among the active rows: one per block, then others."""

    def __init__(self, problem: SignedRows, floor: float = 0.0, finish: float = 0.0, seed: int = 0) -> None:
        d, r = problem.blocks, problem.target.size
        self.problem, self.blocks = problem, d
        norms = np.sqrt(np.einsum("ij,ij->i", problem.B, problem.B))
        self.flat = FLAT * np.concatenate([norms, norms])
        self.least = self.flat.copy()
        self.product = SignedProduct.of(problem.B, problem.block[: problem.B.shape[0]])
        self.chance = np.random.default_rng(seed)
        self.Q, self.S, self.C = np.zeros((r, r)), np.zeros((r, r)), np.zeros((r, r))
        self.x, self.y, self.du = np.zeros(r), np.zeros(r), np.zeros(r)
        self.active, self.home = np.zeros(d + r, dtype=np.int64), np.zeros(d + r, dtype=np.int64)
        self.home[:d] = np.arange(d)
        self.eta = np.zeros(d + r)
        self.numbers, self.counts = np.zeros(2), np.zeros(5, dtype=np.int64)  # see walk
        self.knots = Knots(r, d)
        values, level = problem.values(problem.target), problem.levels(problem.target)
        first = np.flatnonzero(values >= level[problem.block])[::-1]
        self.active[problem.block[first]] = first  # of equal rows the first, the others enter without a step
        self.limits = (floor, finish**2, _LEVEL * float(level.sum()))
        self.age, self.u, self.t = 0, problem.target.copy(), level
        self.restart(0.0, d)
        self.record()

    @property
    def rho(self) -> float:
        """The parameter here."""
        return float(self.numbers[0])

    @property
    def steps(self) -> int:
        """Exchanges so far."""
        return int(self.counts[1])

    @property
    def n_active(self) -> int:
        """The number of active rows, references included."""
        return int(self.counts[0])

    def restart(self, rho: float, n_active: int) -> None:
        """Begin at rho from the present active rows and multipliers."""
        self.numbers[0] = rho
        self.counts[0], self.counts[2], self.counts[3] = n_active, 0, -1
        self._refer()
        open_rows(self.least, self.flat, self.active, n_active)
        self.settle()

    def take_up(self, rho: float, eta: Array, zero: float) -> bool:
        """Begin at rho from the rows whose multipliers exceed zero; whether their exact ones are non-negative."""
        d, block = self.blocks, self.problem.block
        order = np.argsort(-eta, kind="stable")
        order = order[
            np.concatenate([np.unique(block[order], return_index=True)[1], np.flatnonzero(eta[order] > zero)])
        ]
        order = order[np.sort(np.unique(order, return_index=True)[1])]  # the largest of each block, then the others
        self.active[:d] = order[:d]
        self._refer()
        n = d
        factors = (self.Q, self.S, self.C, self.x, self.y, self.du)
        for i in order[d:]:
            w = self.problem.row(int(i)) - self.references[block[i]]
            if choose_twin(block_basis.append)(*factors, n - d, w, 1e-9):
                self.active[n], self.home[n] = i, block[i]
                n += 1
        self.numbers[0], self.counts[0], self.eta[d:n] = rho, n, 0.0
        for _ in range(3):  # solved, then refined
            self._place()
            self.eta[d:n] += self.S[: n - d, : n - d] @ (self.Q[: n - d] @ self.u)
        self.eta[:d] = rho - np.bincount(self.home[d:n], self.eta[d:n], d)
        good = bool(self.eta[:n].min() >= -1e-9 * rho)
        self.eta[:n] = np.maximum(self.eta[:n], 0.0)
        self.eta[:d] = rho - np.bincount(self.home[d:n], self.eta[d:n], d)
        self.restart(rho, n)
        return good

    def gap(self, exact: bool = False) -> float:
        """Return the duality gap here, as a share of that of u = 0; with the levels as updated, or computed again."""
        return self._gap(self.problem.levels(self.u) if exact else self.t)

    def _gap(self, t: Array) -> float:
        target = self.problem.target
        return (self.rho * float(t.sum()) + float(self.u @ (self.u - target))) / (0.5 * float(target @ target))

    def advance(self, most: int = 1) -> str:
        """Go on by a few segments, at most as many; "" or why the path cannot continue: "end" or "stall"."""
        if (self._needs_factorisation() and not self.settle()) or (self.age >= _RENEW and not self.renew()):
            return "stall"
        look = _LOOK if self._few else _SELDOM
        draws = self.chance.uniform(size=min(most, look - self.age % look))
        rows, before = (self.product.B, self.product.F, self.product.G, self.problem.block, self.flat), self.steps
        basis = (self.Q, self.S, self.C, self.x, self.y, self.references, self.q)
        point = (self.u, self.du, self.t, self.eta, self.slack, self.least, self.active, self.home)
        self.counts[4] = 0
        kept = self.knots.room(draws.size, self.active.size)
        arguments: tuple[Any, ...] = (*rows, *basis, *point, self.limits, self.numbers, self.counts, draws, *kept)
        code = choose_twin(walk)(*arguments)
        self.age += self.steps - before
        self.knots.size += int(self.counts[4])
        return "" if code == 0 else "end" if code == END else "stall"

    def record(self) -> None:
        """Keep this point as a knot."""
        n = self.n_active
        self.knots.append(self.rho, self.u, self.t, self.active[:n], np.maximum(self.eta[:n], 0.0))

    def _refer(self) -> None:
        self.references = self.problem.rows(self.active[: self.blocks])
        self.q = self.references.sum(axis=0)

    def _differences(self) -> Array:
        """Return D: the active rows less the references of their blocks."""
        d, n = self.blocks, self.n_active
        return np.asarray(self.problem.rows(self.active[d:n]) - self.references[self.home[d:n]])

    def _place(self) -> None:
        d, n = self.blocks, self.n_active
        eta = self.eta[:n].copy()
        eta[:d] = self.rho - np.bincount(self.home[d:n], eta[d:], d)
        self.u = self.problem.target - self.problem.combine(self.active[:n], eta)

    @property
    def _few(self) -> bool:
        return (self.n_active - self.blocks) * self.u.size <= _FEW

    def _needs_factorisation(self) -> bool:
        """Return whether to factor the active rows again at this look already: they are few, or rounding shows."""
        m = self.n_active - self.blocks
        if self._few or self.age < _SELDOM or m * self.u.size > _SOME:
            return self._few and self.age >= _LOOK
        return not _is_within(block_basis.measure_turn(self.Q, self.S, self.C, m, self.chance), _SHOWS)

    def renew(self) -> bool:
        """Remove rounding from the multipliers, and from the factors if there is much; False where rows depend."""
        if not _is_within(block_basis.drift(self.Q, self.S, self.C, self._differences(), self.chance), _DRIFT):
            return self.settle()
        self._correct()
        self.age = 0
        return True

    def settle(self) -> bool:
        """Factor the active rows again and remove rounding from the multipliers; False where rows depend."""
        if not block_basis.rebuild(self.Q, self.S, self.C, self._differences()):
            return False
        self._aim()
        self._correct()
        self.age = 0
        return True

    def _aim(self) -> None:
        """Compute the direction and the slopes, from the factors."""
        m = self.n_active - self.blocks
        self.x[:], self.y[:], self.du = 0.0, 0.0, -self.q
        for _ in range(2):
            block_basis.sweep(self.Q, m, self.du, self.y)
        self.y *= -1.0
        self.numbers[1] = float(np.linalg.norm(self.du))
        for _ in range(2):
            block_basis.refine_coefficients(self.S, self.C, self.x, self.y, m)

    def _correct(self) -> None:
        """Bring D u back to zero as far as the multipliers stay non-negative, where that makes the gap smaller.

        Between rows that nearly depend on each other the correction can be large and of no use.
        """
        d, n = self.blocks, self.n_active
        S, C, before = self.S[: n - d, : n - d], self.C[: n - d, : n - d], self.eta[:n].copy()
        gap = self._see()
        inside = self.Q[: n - d] @ self.u
        shift = S @ inside
        shift += S @ (inside - shift @ C)
        shift = np.concatenate([-np.bincount(self.home[d:n], shift, d), shift])
        falls = shift < 0.0
        share = np.min(np.maximum(self.eta[:n][falls], 0.0) / -shift[falls], initial=1.0)
        self.eta[:n] += share * shift
        self.eta[:d] = self.rho - np.bincount(self.home[d:n], self.eta[d:n], d)
        if self._see() > gap:
            self.eta[:n] = before
            self._see()

    def _see(self) -> float:
        """Return the point of these multipliers, and its gap."""
        self._place()
        values = self.problem.values(self.u)
        self.t = self.references @ self.u
        self.slack = self.t[self.problem.block] - values
        return self._gap(self.problem.levels_of(values))


def _is_within(measures: tuple[float, ...], limits: tuple[float, ...]) -> bool:
    """Return whether none exceeds its limit; what is not a number does."""
    return all(rounding <= most for rounding, most in zip(measures, limits, strict=True))
