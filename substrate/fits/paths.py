r"""The exact solution paths of the L1 substrate in zeta and of maximal variation in rho.

Both are the path, for growing rho, of

.. math:: \min_u \; \tfrac12 \|u - \tilde y\|^2 + \rho \sum_l \max_{i \in l} M_i u
   \qquad \Longleftrightarrow \qquad
   \min_\eta \; \tfrac12 \|\tilde y - M^T \eta\|^2 \;\; \text{s.t.} \;\; \eta \ge 0, \;\; \sum_{i \in l} \eta_i = \rho

with rows :math:`M = [B; -B]` in blocks. *Maximal variation* ([Pelckmans2005]_ eq. (25)) has both signs of the rows of
:math:`B^l` in block l, and is followed from :math:`\rho = 0`, where :math:`u = \tilde y`, to the smallest rho from
which on all components vanish. *The L1 substrate* (eq. (16)), with the residual u and the centred columns B, has the
plus signs in one block and the minus signs in another, because by :math:`1^T a = 0` each has half of the 1-norm: then
:math:`\|a\|_1 = 2 \rho`, and the levels :math:`t_\pm` of the two maxima give :math:`\zeta = (t_+ + t_-)/2` and the
multiplier :math:`\nu = (t_+ - t_-)/2`. Without the equality both signs are one block, and the path is the lasso path
([Efron2004]_).

On a segment each block has active rows A at its level, :math:`M_A u = E t` with E the indicators of the blocks, so that

.. math:: \min_{\dot\eta} \|M_A^T \dot\eta\|^2 \;\; \text{s.t.} \;\; E^T \dot\eta = 1, \qquad
          \dot u = - M_A^T \dot\eta, \qquad M_A \dot u = E \dot t .

With :math:`W = [M_A, E] = (Q R)^T`, which adds a constant to the objective and has independent rows,
:math:`\dot\eta = R^{-1} Z \mu`, :math:`Z = R^{-T} E`, :math:`Z^T Z \mu = 1`. The factors are updated when a row reaches
its level and enters, or when its multiplier vanishes and it leaves; multipliers are updated, not solved for again,
since where rows nearly depend on each other a rounding error of u would become a large one of the multipliers. Rows
that depend on active ones have no slope along the segment and do not enter.

The event that ends a segment is found by the ratio test of [Harris1973]_: of all rows that reach their bound within a
step that lets none exceed it by more than rounding, the one with the largest rate is taken. So many exchanges without a
step are allowed. The duality gap is checked at intervals, and a path ends where rounding makes it large.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, qr_delete
from scipy.sparse import csr_array, vstack

from substrate.arrays import Array, blas_threads, real_array
from substrate.errors import DataError, DeclarationError
from substrate.fits.coordinates import root_of
from substrate.fits.stacked_least_squares import reflect
from substrate.fits.variation import BALL
from substrate.numbers import relative_rounding

__all__ = [
    "SMALLEST_ZETA",
    "Path",
    "PathPoint",
    "centered_columns",
    "correlation_noise",
    "describe_coverage",
    "l1_path",
    "path_of_columns",
    "variation_path",
]

#: Relative excess over zeta at which an atom counts as violating its bound.
_VIOLATION = 1e-11
#: Default end of a path in zeta, as a share of zeta_max.
SMALLEST_ZETA = 1e-4
#: Largest duality gap of a knot as a share of the gap of u = 0, in zeta and rho: on ill-conditioned components rounding
#: alone makes 1e-9.
_GAP, _VARIATION_GAP = 1e-9, 1e-7
#: Length of u, as a share of the target's, that is taken for the end of a path in rho.
_FINISH = 1e-6
#: A rate below this share of its row's norm is rounding: the row depends on those in use.
_FLAT = 1e-10
#: The rate at which a row that may not enter would have to; finite, since a point at rest is multiplied by it.
_NEVER = 1e150
#: By how much the ratio test lets levels and multipliers be exceeded, relative to their sizes.
_MARGIN = 1e-12
#: A step below this share of rho counts as zero, and so many of them are allowed.
_STILL, _PATIENCE = 1e-14, 200
#: A path in zeta ends where the levels have fallen to this share of their initial values.
_LEVEL = 1e-12
#: Exchanges between two factorisations of the active rows, and where they have few entries.
_RENEW, _OFTEN, _FEW, _SOME = 50, 20, 5000, 20000


class PathPoint(NamedTuple):
    """The path at one value of its parameter."""

    value: float
    primal: Array
    dual: Array
    bias: float


@dataclass(frozen=True, slots=True)
class Path:
    """Knots of a solution that is affine in its parameter between them.

    Parameters
    ----------
    parameter
        Its name: ``"rho"`` or ``"zeta"``.
    values
        The parameter at the knots, ascending.
    primal, dual
        One row per knot, of an array or a sparse one. Maximal variation: u and xi. L1: the coefficients a, and the
        multiplier nu of 1'a = 0.
    bias
        One number per knot; zero where the model has no bias.
    complete
        Whether the path reached its required end.
    constant_below, constant_above
        Whether the solution is known to be constant below the first and above the last knot.
    stop
        Why the path ends where it does, in words.
    rounding
        How far rounding may have moved the last knot. A value that is less than this below it is read as that knot, so
        that what has vanished there is zero on every processor.
    """

    parameter: str
    values: Array
    primal: Any
    dual: Any
    bias: Array
    complete: bool
    constant_below: bool
    constant_above: bool
    stop: str
    rounding: float = 0.0

    def __len__(self) -> int:
        return self.values.size

    @property
    def lowest(self) -> float:
        """The smallest value that is covered."""
        return 0.0 if self.constant_below else float(self.values[0])

    @property
    def highest(self) -> float:
        """The largest value that is covered."""
        return np.inf if self.constant_above else float(self.values[-1])

    def at(self, value: float) -> PathPoint:
        """Return the solution at this value: linear between knots, constant beyond an end that is known to be final."""
        if not self.lowest <= value <= self.highest:
            raise DeclarationError(
                f"{self.parameter} = {value!r} is not covered: the path reaches from {self.lowest:g} to "
                f"{self.highest:g} ({self.stop})"
            )
        x = float(np.clip(value, self.values[0], self.values[-1]))
        if self.constant_above and x >= float(self.values[-1]) - self.rounding:
            x = float(self.values[-1])
        k = int(np.clip(np.searchsorted(self.values, x, side="right") - 1, 0, max(len(self) - 2, 0)))
        after = min(k + 1, len(self) - 1)
        width = float(self.values[after] - self.values[k])
        share = (x - float(self.values[k])) / width if width > 0.0 else 0.0

        def between(rows: Any) -> Any:
            ends = rows[[k, after]] if isinstance(rows, np.ndarray) else rows[[k, after]].toarray()
            return (1.0 - share) * ends[0] + share * ends[1]

        return PathPoint(value, between(self.primal), between(self.dual), float(between(self.bias)))


def describe_coverage(parameter: str, coverage: tuple[float, float]) -> str:
    """Return the interval that a lower bound covers, in words."""
    low, high = coverage
    interval = f"{parameter} >= {low:.4g}" if math.isinf(high) else f"{parameter} from {low:.4g} to {high:.4g}"
    return f"lower bound, {interval}"


def correlation_noise(Phi: Array, target: Array) -> float:
    """Bound the rounding of a correlation of a column of ``Phi`` with the centred target.

    A sum of n products has an error of at most n eps times the sum of their sizes, typically the root of n; that sum
    is at most the root of n times the largest entry of ``Phi`` and the length of the target.
    """
    return float(relative_rounding(Phi.shape[0]) * np.abs(Phi).max(initial=0.0) * np.linalg.norm(target))


def l1_path(
    Phi: Array,
    y: Array,
    zeta_min: float | None = None,
    *,
    ridge: float = 0.0,
    zero_sum: bool = True,
) -> Path:
    r"""Return coefficients, bias and nu for every zeta from ``zeta_min`` up.

    A ridge adds :math:`\tfrac{\tau}{2} a^T \Phi a`, for a symmetric matrix only: rows :math:`\sqrt\tau R` with
    :math:`\Phi = R^T R` and the target 0, which are not centred.

    :equation [Pelckmans2005]_ (16): its path in zeta

    Parameters
    ----------
    Phi, y
        Columns to combine, of any number, and one target per row.
    zeta_min
        Where to stop, at or above zero; None for ``SMALLEST_ZETA`` times zeta_max.
    ridge
        Weight of half of a'Phi a.
    zero_sum
        Whether 1'a = 0 is required; the bias is free in any case.
    """
    Phi, y = real_array(Phi, "Phi", ndim=2), real_array(y, "y", ndim=1)
    if zeta_min is not None and not (np.isfinite(zeta_min) and zeta_min >= 0.0):
        raise DeclarationError(f"zeta_min must be zero or a positive number, received {zeta_min!r}")
    if y.size != len(Phi) or y.size < 2:
        raise DataError(f"y must have one entry per row of Phi, at least two: Phi has {len(Phi)} rows, y has {y.size}")
    return path_of_columns(*centered_columns(Phi, y, ridge), zeta_min, zero_sum=zero_sum)


def centered_columns(
    Phi: Array, y: Array, ridge: float = 0.0, *, weights: Array | None = None, energy: Array | None = None
) -> tuple[Array, Array, tuple[Array, float], float]:
    """Return centred columns as rows of a matrix and the target in as few coordinates, their means, and their noise.

    Rows with ``weights`` are multiplied by their roots. With a ridge there are further coordinates, which are not
    centred and in which the target is zero: the root of the ``energy``, or of Phi, a kernel matrix.
    """
    p = Phi.shape[1]
    means = np.average(Phi, axis=0, weights=weights)
    mean = float(np.clip(np.average(y, weights=weights), y.min(), y.max()))  # exact where y is constant
    with blas_threads(max(Phi.shape)):
        if weights is None:
            B, target = np.ascontiguousarray(reflect(Phi)[1:].T), reflect((y - mean)[:, None])[1:, 0]
        else:
            roots = np.sqrt(weights)
            B, target = np.ascontiguousarray((roots[:, None] * (Phi - means)).T), roots * (y - mean)
        # columns that are constant but for rounding (a kernel far too wide) correlate with nothing
        noise = correlation_noise(Phi if weights is None else roots[:, None] * Phi, target)
        if ridge > 0.0:
            root = root_of(Phi if energy is None else energy)
            B, target = np.hstack([B, math.sqrt(ridge) * root.T]), np.append(target, np.zeros(p))
        if target.size > p:  # the part of the residual orthogonal to all columns never changes
            Q, R = np.linalg.qr(B.T)
            B, target = np.ascontiguousarray(R.T), Q.T @ target
    return B, target, (means, mean), noise


def path_of_columns(
    B: Array, target: Array, means: tuple[Array, float], noise: float, zeta_min: float | None, *, zero_sum: bool
) -> Path:
    """Return the path of columns, the rows of ``B``, that are centred already, in coordinates of any number.

    ``means`` are what was subtracted from columns and target; a correlation below ``noise`` is rounding.
    """
    p = len(B)
    with blas_threads(max(B.shape)):
        c = B @ target
        top = float(c.max() - c.min()) / 2.0 if zero_sum else float(np.abs(c).max())
        lowest = SMALLEST_ZETA * top if zeta_min is None else float(zeta_min)
        slack = max(noise, _VIOLATION * top)  # within this of top, zero cannot be distinguished from rounding
        if not top > lowest + slack:
            start = lowest if zeta_min is not None and lowest > 0.0 else top
            nu = np.array([[float(c.max() + c.min()) / 2.0]])
            none, stop = csr_array((1, p)), "a = 0 for every requested zeta"
            return Path("zeta", np.array([start]), none, nu, np.array([means[1]]), True, False, True, stop)
        block, share = np.repeat([0, 1 if zero_sum else 0], p), 2.0 if zero_sum else 1.0
        walk = _Walk(B, block, target, 50 * p + 1000, _GAP, floor=share * lowest)
        walk.follow()
    zeta = walk.levels.sum(axis=1) / share
    if walk.finished and lowest > 0.0:
        zeta[-1] = lowest
    # zeta falls along the path; rounding may hide it
    kept = np.flatnonzero(np.concatenate([[True], np.diff(np.minimum.accumulate(zeta)) < 0.0]))[::-1]
    a = walk.multipliers[kept]
    return Path(
        parameter="zeta",
        values=zeta[kept],
        primal=a,
        dual=(walk.levels[kept, 0] - walk.levels[kept, -1])[:, None] / 2.0,
        bias=means[1] - np.asarray(a @ means[0]),
        complete=walk.finished,
        constant_below=walk.finished and lowest == 0.0,
        constant_above=True,
        stop=f"zeta = {lowest:g} was reached" if walk.finished else walk.stop,
        rounding=slack,
    )


def variation_path(components: Sequence[Array], target: Array) -> Path:
    r"""Return u and xi for every rho from zero up; xi has the rows of all components one after the other.

    :equation [Pelckmans2005]_ (25): its path in rho

    Near the end u is a rounding error and every row is near its level. The path is followed until :math:`\|u\|` is a
    millionth of :math:`\|\tilde y\|`; the rest is assigned to the multipliers by least squares, and the last knot is
    at the rho that they then need: there u = 0 is optimal exactly, and so it is for every larger rho.

    Parameters
    ----------
    components
        The matrices :math:`B^l`, each with one column per entry of ``target``.
    target
        :math:`\tilde y`, in the same coordinates.
    """
    target = real_array(target, "target", ndim=1)
    matrices = [real_array(component, f"part {number}", ndim=2) for number, component in enumerate(components)]
    wrong = [component.shape for component in matrices if component.shape[1] != target.size]
    if wrong or not matrices:
        raise DataError(f"parts must have {target.size} columns each, as many as target has entries; received {wrong}")
    B = np.vstack(matrices)
    block = np.repeat(np.arange(len(matrices)), [component.shape[0] for component in matrices])
    with blas_threads(target.size):
        space = _row_space(B)
        inner = space.T @ target
        rows = np.flatnonzero(np.isin(block, np.unique(block[B.any(axis=1)])))  # a component of zeros pays nothing
        if not rows.size or not np.linalg.norm(inner) > relative_rounding(1.0) * np.linalg.norm(target):
            none, stop = csr_array((1, B.shape[0])), "the target is orthogonal to all components"
            return Path("rho", np.zeros(1), target[None], none, np.zeros(1), True, False, True, stop)
        labels = np.unique(block[rows], return_inverse=True)[1]
        walk = _Walk(
            np.ascontiguousarray(B[rows] @ space),
            labels,
            inner,
            10 * B.shape[0] + 2000,
            _VARIATION_GAP,
            finish=_FINISH,
        )
        walk.follow()
        rho = np.array([knot[0] for knot in walk.knots]) * (walk.length / walk.size)
        u, xi = walk.points, walk.multipliers
        if walk.finished:
            rho, u, xi = _finish(walk, rho, u, xi)
    beyond = target - space @ inner
    dual = csr_array((xi.data, rows[xi.indices], xi.indptr), shape=(xi.shape[0], B.shape[0]))
    return Path(
        parameter="rho",
        values=rho,
        primal=beyond + u @ space.T,
        dual=dual,
        bias=np.zeros(rho.size),
        complete=walk.finished,
        constant_below=False,
        constant_above=walk.finished,
        stop="all components have vanished" if walk.finished else walk.stop,
        rounding=BALL * float(rho[-1]),
    )


def _row_space(B: Array) -> Array:
    """Return an orthonormal basis of the span of the rows, as columns."""
    R = np.linalg.qr(B, mode="r") if B.shape[0] > B.shape[1] else B
    _, s, Vt = np.linalg.svd(R, full_matrices=False)
    keep = s > relative_rounding(max(B.shape)) * s[0]
    return np.eye(B.shape[1]) if keep.sum() == B.shape[1] else np.ascontiguousarray(Vt[keep].T)


def _finish(walk: "_Walk", rho: Array, u: Array, xi: Any) -> tuple[Array, Array, Any]:
    """Return the knots with an exact last one: multipliers that leave u = 0, and the rho that they need."""
    last, target = xi[[-1]].toarray()[0], walk.length * walk.target
    B = walk.size * walk.B
    for _ in range(3):  # least squares, refined
        last = last + np.linalg.lstsq(B.T, target - B.T @ last, rcond=relative_rounding(max(B.shape)))[0]
    needed = float(np.bincount(walk.block[: last.size], np.abs(last)).max())
    kept = rho.size if needed > rho[-1] else rho.size - 1
    rho = np.append(rho[:kept], max(needed, float(rho[-1])))
    return rho, np.vstack([u[:kept], np.zeros(u.shape[1])]), vstack([xi[:kept], csr_array(last[None])], format="csr")


class _Walk:
    """The point that follows a path from rho = 0, with its active rows and their factors; in units of B and target."""

    def __init__(
        self,
        B: Array,
        block: NDArray[np.intp],
        target: Array,
        limit: int,
        gap: float,
        *,
        floor: float = 0.0,
        finish: float = 0.0,
    ) -> None:
        self.size = float(np.sqrt(np.einsum("ij,ij->i", B, B).max()))
        self.length = float(np.linalg.norm(target))
        self.B, self.target, self.gap, self.finish = B / self.size, target / self.length, gap, finish
        self.block = block if block.size == 2 * len(B) else np.concatenate([block, block])
        self.floor, self.limit = floor / (self.size * self.length), limit
        self.d, self.r = int(self.block.max()) + 1, target.size
        self.order = np.argsort(self.block, kind="stable")
        self.starts = np.searchsorted(self.block[self.order], np.arange(self.d))
        norms = np.sqrt(np.einsum("ij,ij->i", self.B, self.B))
        self.flat = _FLAT * np.concatenate([norms, norms])
        self.age = 0
        self.rho, self.u, self.finished, self.stop = 0.0, self.target.copy(), False, ""
        most = self.r + self.d
        # below Q is the transpose of Z: what turns the columns of one turns the columns of the other
        self.QZ, self.R = np.zeros((most + self.d, most), order="F"), np.zeros((most, most), order="F")
        self.Q, self.Zt = self.QZ[:most], self.QZ[most:]
        values = self._values(self.u)
        self.t = np.maximum.reduceat(values[self.order], self.starts)
        first = np.flatnonzero(values >= self.t[self.block])[::-1]
        self.active = np.zeros(self.d, dtype=np.intp)
        self.active[self.block[first]] = first  # of equal rows the first, the others enter without a step
        self.eta = np.zeros(self.d)
        self.slack = self.t.take(self.block) - values
        self._allow(-1)
        self._factor()
        self.knots: list[tuple[float, Array, Array, NDArray[np.intp], Array]] = []
        self._record()

    def _values(self, u: Array) -> Array:
        v = self.B @ u
        return np.concatenate([v, -v])

    def _rows(self, chosen: Any) -> Array:
        """Return rows of M."""
        p = len(self.B)
        return np.asarray(np.where(chosen < p, 1.0, -1.0)[:, None] * self.B[chosen % p])

    def _allow(self, row: int) -> None:
        """Allow all rows to enter but the active ones, and one that has just left."""
        self.least = self.flat.copy()
        self.least[self.active] = _NEVER
        self.left_row = row
        if row >= 0:
            self.least[row] = _NEVER

    def _record(self) -> None:
        self.knots.append((self.rho, self.u.copy(), self.t.copy(), self.active, np.maximum(self.eta, 0.0)))

    @property
    def points(self) -> Array:
        """The points u, one row per knot."""
        return np.array([knot[1] for knot in self.knots]) * self.length

    @property
    def levels(self) -> Array:
        """The levels t, one row per knot."""
        return np.array([knot[2] for knot in self.knots]) * (self.size * self.length)

    @property
    def multipliers(self) -> Any:
        """The net multipliers of the rows of B, one sparse row per knot."""
        p, unit = len(self.B), self.length / self.size
        rows, eta = (np.concatenate([knot[place] for knot in self.knots]) for place in (3, 4))
        starts = np.concatenate([[0], np.cumsum([knot[3].size for knot in self.knots])])
        net = csr_array((unit * np.where(rows < p, eta, -eta), rows % p, starts), shape=(len(self.knots), p))
        net.sum_duplicates()
        return net

    def follow(self) -> None:
        """Follow the path to its end, or to where rounding ends it."""
        height = self.floor + _LEVEL * float(self.t.sum())
        rounding = (
            f"stopped where rounding makes the duality gap exceed {self.gap:g} times the gap of the trivial point"
        )
        sound = still = 0
        for step in range(1, self.limit + 1):
            if step % (_OFTEN if self.active.size * self.r <= _FEW else _RENEW) == 0:
                if not self._renew():
                    self.stop = rounding
                    break
                sound = len(self.knots)
            du, slope = self._direction()
            event, which, length, rate, dt = self._travel(du, slope)
            if not event:
                self.stop = "stopped where no exchange of active rows leads on"
                break
            self.rho += length
            self.u += length * du
            self.eta = self.eta + length * slope
            if event == "leave":  # exactly zero; what rounding left is added to the largest multiplier of its block
                members = np.flatnonzero(self.block[self.active] == self.block[self.active[which]])
                self.eta[members[self.eta[members].argmax()]] += self.eta[which]
                self.eta[which] = 0.0
            self.slack -= length * rate
            self.t += length * dt
            self.finished = event == "floor" or float(self.u @ self.u) <= self.finish**2 or self.t.sum() <= height
            if self.finished or length > _STILL * self.rho:
                self._record()
                still = 0
                if self.left_row >= 0:  # a row that has just left may enter again once a step is made
                    self.least[self.left_row], self.left_row = self.flat[self.left_row], -1
            else:
                still += 1
            if self.finished or still > _PATIENCE:
                self.stop = "" if self.finished else "stopped where no exchange of active rows leads on"
                break
            if event == "leave":
                self._leave(which)
            else:
                self.least[which] = _NEVER
                if self._append(self.active.size, self._rows(np.array([which]))[0], self.block[which]):
                    self.active, self.eta = np.append(self.active, which), np.append(self.eta, 0.0)
        else:
            self.stop = f"stopped after {self.limit} exchanges of active rows"
        while len(self.knots) > max(sound, 1) and self._gap_of(self.knots[-1]) > self.gap:
            self.knots.pop()
            self.finished, self.stop = False, rounding

    def _direction(self) -> tuple[Array, Array]:
        """Return how u and the multipliers move: by Z mu with Z'Z mu = 1."""
        n = self.active.size
        Zt = self.Zt[:, :n]
        along = lapack.dposv(Zt @ Zt.T, np.ones(self.d))[1] @ Zt
        return -(self.Q[: self.r, :n] @ along), lapack.dtrtrs(self.R[:n, :n], along)[0]

    def _travel(self, du: Array, slope: Array) -> tuple[str, int, float, Array, Array]:
        """Return what ends the segment ("" where nothing does), which row, the step, and the rates of rows and levels.

        A row that can leave does so first: fewer rows are better conditioned.
        """
        v = self.B @ du
        rate, dt = np.concatenate([v, -v]), np.zeros(self.d)
        dt[self.block[self.active]] = rate[self.active]
        rate -= dt.take(self.block)
        speed, longest = math.sqrt(float(du @ du)), math.inf
        (fall,) = np.nonzero(slope < -_FLAT)
        room = np.maximum(self.eta[fall], 0.0)
        if fall.size:
            longest = float(((room + _MARGIN * self.rho) / -slope[fall]).min())
        (near,) = np.nonzero(self.slack <= longest * rate if fall.size else rate > 0.0)  # few
        near = near[rate[near] > speed * self.least[near]]
        gaps = np.maximum(self.slack[near], 0.0)
        step = min(longest, float(((gaps + _MARGIN * self.t.max()) / rate[near]).min())) if near.size else longest
        event, which, length = "", -1, step
        if math.isfinite(step):
            (first,) = np.nonzero(room <= step * -slope[fall])
            if first.size:
                k = _steepest(first, -slope[fall])
                event, which, length = "leave", int(fall[k]), float(room[k] / -slope[fall[k]])
            else:
                k = _steepest(np.flatnonzero(gaps <= step * rate[near]), rate[near])
                event, which, length = "enter", int(near[k]), float(gaps[k] / rate[near[k]])
        falling, height = -float(dt.sum()), float(self.t.sum()) - self.floor
        if falling > 0.0 and height <= length * falling * (1.0 + 1e-9):
            event, length = "floor", height / falling
        return event, which, length, rate, dt

    def _append(self, n: int, row: Array, home: int) -> bool:
        """Add a row of W to the factors, orthogonalised twice; whether it is independent of the others."""
        if n >= self.Q.shape[1]:
            return False
        w = np.concatenate([row, np.zeros(self.d)])
        w[self.r + home] = 1.0
        Q, size, c = self.Q[:, :n], math.sqrt(float(w @ w)), np.zeros(n)
        for _ in range(2):
            s = w @ Q
            w -= Q @ s
            c += s
        length = math.sqrt(float(w @ w))
        if length <= 0.1 * _FLAT * size:
            return False
        self.Q[:, n], self.R[:n, n], self.R[n, n] = w / length, c, length
        self.Zt[:, n] = -(self.Zt[:, :n] @ c)
        self.Zt[home, n] += 1.0
        self.Zt[:, n] /= length
        return True

    def _leave(self, which: int) -> None:
        """Remove an active row, whose multiplier is zero."""
        n, row = self.active.size, int(self.active[which])
        Q, R = qr_delete(self.QZ[:, :n], self.R[:n, :n], which, which="col", check_finite=False)
        self.QZ[:, : n - 1], self.R[: n - 1, : n - 1] = Q[:, : n - 1], R[: n - 1]
        self.active, self.eta = np.delete(self.active, which), np.delete(self.eta, which)
        self._allow(row)  # rows that depended on the row that left may be independent now

    def _factor(self) -> None:
        """Factor the active rows anew."""
        n, E = self.active.size, np.eye(self.d)[self.block[self.active]]
        self.Q[:, :n], self.R[:n, :n] = np.linalg.qr(np.hstack([self._rows(self.active), E]).T)
        self.Zt[:, :n] = lapack.dtrtrs(self.R[:n, :n], E, trans=1)[0].T

    def _renew(self) -> bool:
        """Factor the active rows anew, and compute point, levels and slacks from the multipliers, made to add up to
        rho; return whether the gap is small.
        """
        self.age += 1
        if self.active.size * self.r <= _SOME or self.age % 4 == 0:
            self._factor()
        homes = self.block[self.active]
        first = np.zeros(self.d, dtype=np.intp)
        first[homes[::-1]] = np.arange(self.active.size)[::-1]
        self.eta = self.eta.copy()
        self.eta[first] += self.rho - np.bincount(homes, self.eta, self.d)
        self.u = self.target - self._rows(self.active).T @ self.eta
        values = self._values(self.u)
        np.put(self.t, homes, values[self.active])
        self.slack = self.t.take(self.block) - values
        return self._gap_of((self.rho, self.u)) <= self.gap

    def _gap_of(self, knot: tuple[Any, ...]) -> float:
        """Return the duality gap as a share of the gap of u = 0."""
        rho, u = knot[:2]
        levels = np.maximum.reduceat(self._values(u)[self.order], self.starts)
        return float(2.0 * (rho * levels.sum() + u @ (u - self.target)))


def _steepest(places: Any, rates: Array) -> int:
    """Return the place with the largest rate."""
    return int(places[rates[places].argmax()])
