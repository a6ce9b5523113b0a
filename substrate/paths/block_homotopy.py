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

import numpy as np

from substrate.arrays import Array
from substrate.paths import block_basis
from substrate.paths.block_basis import FLAT
from substrate.paths.signed_rows import Knots, Product, SignedRows, chosen

__all__ = ["BlockPath"]

#: Exchanges between two new factorisations.
_RENEW = 100
#: Exchanges without a step after which the choice is random, and after which the path stalls.
_STEEPEST, _PATIENCE = 4, 200
#: The path ends where the levels have fallen to this share of their initial values.
_LEVEL = 1e-12
#: Codes that :func:`substrate.paths.block_basis.travel` returns for the end of a segment.
_NOTHING, _LEAVES, _FLOOR = 0, 2, 3
#: A step below this share of rho counts as zero.
_STILL = 1e-14


class BlockPath:
    """The point that follows the path. References come first among the active rows: one per block, then others."""

    def __init__(self, problem: SignedRows, floor: float = 0.0, finish: float = 0.0, seed: int = 0) -> None:
        d, r = problem.blocks, problem.target.size
        self.problem, self.blocks, self.floor, self.finish = problem, d, floor, finish
        norms = np.sqrt(np.einsum("ij,ij->i", problem.B, problem.B))
        self.flat = FLAT * np.concatenate([norms, norms])
        self.product = Product.of(problem.B, problem.block[: problem.B.shape[0]])
        self.chance = np.random.default_rng(seed)
        self.Q, self.Z, self.D = np.zeros((r, r)), np.zeros((r, r)), np.zeros((r, r))
        self.active, self.home = np.zeros(d + r, dtype=np.int64), np.zeros(d + r, dtype=np.int64)
        self.home[:d] = np.arange(d)
        self.eta = np.zeros(d + r)
        self.steps, self.knots = 0, Knots()
        values, level = problem.values(problem.target), problem.levels(problem.target)
        first = np.flatnonzero(values >= level[problem.block])[::-1]
        self.active[problem.block[first]] = first  # of equal rows the first, the others enter without a step
        self.height = float(level.sum())
        self.rho, self.age, self.u, self.t = 0.0, 0, problem.target, level
        self.restart(0.0, d)
        self.record()

    def restart(self, rho: float, n_active: int) -> None:
        """Begin at rho from the present active rows and multipliers."""
        self.rho, self.n_active, self.idle, self.banned = rho, n_active, 0, -1
        self._refer()
        self._open()
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
        for i in order[d:]:
            w = self.problem.row(int(i)) - self.references[block[i]]
            if chosen(block_basis.append)(self.Q, self.Z, self.D, n - d, w, 1e-9):
                self.active[n], self.home[n] = i, block[i]
                n += 1
        self.rho, self.n_active, self.eta[d:n] = rho, n, 0.0
        for _ in range(3):  # solved, then refined
            self._place()
            self.eta[d:n] += self.Z[: n - d] @ self.u
        self.eta[:d] = rho - np.bincount(self.home[d:n], self.eta[d:n], d)
        good = bool(self.eta[:n].min() >= -1e-9 * rho)
        self.eta[:n] = np.maximum(self.eta[:n], 0.0)
        self.eta[:d] = rho - np.bincount(self.home[d:n], self.eta[d:n], d)
        self.restart(rho, n)
        return good

    def gap(self, exact: bool = False) -> float:
        """The duality gap here, as a share of that of u = 0; with the levels as updated, or computed again."""
        target, t = self.problem.target, self.problem.levels(self.u) if exact else self.t
        return (self.rho * float(t.sum()) + float(self.u @ (self.u - target))) / (0.5 * float(target @ target))

    def advance(self) -> str:
        """Go to the end of one segment; "" or why the path cannot continue: "end" or "stall"."""
        if self.age >= _RENEW and not self.settle():
            return "stall"
        d, n = self.blocks, self.n_active
        du, slope = chosen(block_basis.slopes)(self.Q, self.Z, self.D, n - d, self.q)
        slope = np.concatenate([1.0 - np.bincount(self.home[d:n], slope, d), slope])
        dt, dv, speed = self.references @ du, self.product(du), float(np.sqrt(du @ du))
        draw = float(self.chance.uniform()) if self.idle > _STEEPEST else -1.0
        self.t = self.t.copy()  # the old array belongs to a knot
        kind, which, step = chosen(block_basis.travel)(
            dv,
            self.problem.block,
            self.slack,
            self.least,
            self.eta[:n],
            slope,
            self.t,
            dt,
            speed,
            self.rho,
            self.floor,
            draw,
        )
        if kind == _NOTHING:
            return "stall"
        self.rho += step
        self.u = self.u + step * du
        if kind == _LEAVES:
            self._vanish(which)
        self.steps += 1
        ends = kind == _FLOOR or float(self.u @ self.u) <= self.finish**2
        ends |= float(self.t.sum()) - self.floor <= _LEVEL * self.height
        if ends or step > _STILL * self.rho:
            self.record()
            self._lift_ban()
        else:
            self.idle += 1
        if ends or self.idle > _PATIENCE:
            return "end" if ends else "stall"
        if kind == _LEAVES:
            self._leave(which)
        else:
            self._enter(which)
        self.age += 1
        return ""

    def record(self) -> None:
        """Keep this point as a knot."""
        n = self.n_active
        self.knots.append(self.rho, self.u, self.t, self.active[:n].copy(), np.maximum(self.eta[:n], 0.0))

    def _refer(self) -> None:
        self.references = self.problem.rows(self.active[: self.blocks])
        self.q = self.references.sum(axis=0)

    def _open(self) -> None:
        """Allow all rows but the active ones to enter."""
        self.least = self.flat.copy()
        self.least[self.active[: self.n_active]] = np.inf

    def _place(self) -> None:
        d, n = self.blocks, self.n_active
        self.u = self.problem.target - self.rho * self.q - self.eta[d:n] @ self.D[: n - d]

    def _lift_ban(self) -> None:
        """A row that has just left may enter again once a step is made."""
        self.idle = 0
        if self.banned >= 0:
            self.least[self.banned] = self.flat[self.banned]
            self.banned = -1

    def _enter(self, i: int) -> None:
        d, n, block = self.blocks, self.n_active, self.problem.block[i]
        self.least[i] = np.inf  # active from now on, or dependent on the active ones
        w = self.problem.row(i) - self.references[block]
        if chosen(block_basis.append)(self.Q, self.Z, self.D, n - d, w, 0.1 * FLAT):
            self.active[n], self.home[n], self.eta[n] = i, block, 0.0
            self.n_active = n + 1

    def _vanish(self, k: int) -> None:
        """Make a multiplier exactly zero; the remainder from rounding is added to the largest of its block."""
        members = np.flatnonzero(self.home[: self.n_active] == self.home[k])
        largest = members[self.eta[members].argmax()]
        self.eta[largest] += self.eta[k]
        self.eta[k] = 0.0

    def _leave(self, k: int) -> None:
        d, last = self.blocks, self.n_active - 1
        if k < d:
            k = self._exchange(k)
        self.banned = int(self.active[k])
        chosen(block_basis.remove)(self.Q, self.Z, self.D, last + 1 - d, k - d)
        for labels in (self.active, self.home, self.eta):
            labels[k] = labels[last]
        self.n_active = last
        self._open()  # rows that depended on the row that left may be independent now
        self.least[self.banned] = np.inf

    def _exchange(self, block: int) -> int:
        """Make the row of the block with the largest multiplier its reference; where the old one now stands."""
        d, n = self.blocks, self.n_active
        members = np.flatnonzero(self.home[d:n] == block)
        k = int(members[self.eta[d + members].argmax()])
        block_basis.exchange(self.Z, self.D, members, k)
        for labels in (self.active, self.eta):
            labels[block], labels[d + k] = labels[d + k], labels[block]
        self._refer()
        return d + k

    def settle(self) -> bool:
        """Factor the active rows again and remove rounding from the multipliers; False where rows depend."""
        d, n = self.blocks, self.n_active
        self.D[: n - d] = self.problem.rows(self.active[d:n]) - self.references[self.home[d:n]]
        if not block_basis.rebuild(self.Q, self.Z, self.D, n - d):
            return False
        self._correct()
        self.age = 0
        return True

    def _correct(self) -> None:
        """Bring D u back to zero as far as the multipliers stay non-negative, where that makes the gap smaller.

        Between rows that nearly depend on each other the correction can be large and of no use.
        """
        d, n = self.blocks, self.n_active
        Q, Z, before = self.Q[: n - d], self.Z[: n - d], self.eta[:n].copy()
        self._see()
        gap = self.gap(exact=True)
        inside = (Q @ self.u) @ Q
        shift = Z @ inside
        shift += Z @ (inside - shift @ self.D[: n - d])
        shift = np.concatenate([-np.bincount(self.home[d:n], shift, d), shift])
        falls = shift < 0.0
        share = np.min(np.maximum(self.eta[:n][falls], 0.0) / -shift[falls], initial=1.0)
        self.eta[:n] += share * shift
        self.eta[:d] = self.rho - np.bincount(self.home[d:n], self.eta[d:n], d)
        self._see()
        if self.gap(exact=True) > gap:
            self.eta[:n] = before
            self._see()

    def _see(self) -> None:
        self._place()
        self.t = self.references @ self.u
        self.slack = self.problem.slack(self.u, self.t)
