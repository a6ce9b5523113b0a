r"""Studentised conformal scores: intervals that widen where rows are sparse, groups of rows, predictive distributions.

For the Gaussian process of the machine a support value has the variance :math:`\gamma s^2 B_{ii}`, B the lower block
of the inverse of the bordered matrix: the score :math:`\alpha_i / \sqrt{B_{ii}}` has one scale at all rows, where a
left-out residual :math:`\alpha_i / B_{ii}` is larger at places with few neighbours. With c, p, S and t of
:mod:`~substrate.uncertainty.conformal` and :math:`P_i = B_{ii} S + c_i^2`, the scores of row i and of the new row are

.. math:: \frac{\alpha_i S - c_i t}{\sqrt{S P_i}}, \qquad \frac{t}{\sqrt S} .

Since :math:`\sqrt{P_i} > |c_i|`, the second less the first rises in t: they meet once. So row i is at least as
strange, by absolute values, on one interval about f(x), with :math:`d_i = \operatorname{sign}(\alpha_i)\, c_i`,

.. math:: - \frac{|\alpha_i| S}{\sqrt{P_i} - d_i} \le t \le \frac{|\alpha_i| S}{\sqrt{P_i} + d_i} ,

and the conformal set of level c is one interval: its ends are the :math:`k = \lceil c (n + 1) \rceil`-th smallest of
these.
By signed scores the new row is above row i from

.. math:: C_i = f(x) + \frac{\alpha_i S}{\sqrt{P_i} + c_i}

on, so the number of :math:`C_i` below z is a distribution function of the new target, up to 1/(n + 1), which holds in
finite samples ([Vovk2019]_; [Vovk2018]_ with kernels, there the studentised machine). The left-out residual with its
sign is not monotone in z and gives none. Of a difference, :math:`\sqrt{P_i} - |c_i| = B_{ii} S / (\sqrt{P_i} + |c_i|)`.

The new row has the weight of the other rows, which must be equal: otherwise the rows are not exchangeable. In groups
(Mondrian, [Vovk2005]_ section 4.5) a new row is compared with the rows of its group alone, to which the guarantee then
applies, whatever the other groups are like; weights have to be equal within each.

Most rows need not be looked at point by point: with :math:`|c_i| \le m_i` and :math:`S \le S_1` at several points,
row i leaves at the latest at :math:`|\alpha_i| (\sqrt{B_{ii} S_1 + m_i^2} + m_i) / B_{ii}`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import Array, real_array
from substrate.errors import DataError
from substrate.least_squares.regularization import Regularization
from substrate.namespaces import namespace_of, on_device_of, take_rows, to_numpy, zeros_beside
from substrate.uncertainty.influence import LeftOutMachines
from substrate.uncertainty.levels import exact_level, rank
from substrate.uncertainty.order import TRIED, kth_smallest, last_to_leave

__all__ = ["Comparison", "PredictiveDistribution", "pair_groups", "predictive_distribution", "studentised_ends"]


class Comparison(NamedTuple):
    """New points, by their numbers, and the rows of the fit that they are compared with."""

    points: Any
    rows: Any


def pair_groups(training: Any, new: Any, n_rows: int, n_points: int) -> tuple[Comparison, ...]:
    """Return the new points of each group with the rows of the same group; labels are numbers or strings."""
    labels = {"training rows": np.asarray(training), "new rows": np.asarray(new)}
    for (name, values), n in zip(labels.items(), (n_rows, n_points), strict=True):
        if values.shape != (n,):
            raise DataError(
                f"groups must be a pair of label arrays, of the rows of the fit (those of positive weight) and of the "
                f"new rows: expected {n} labels of the {name}, received shape {values.shape}"
            )
        if values.dtype.kind not in "biuUS" and not (values.dtype.kind == "f" and np.isfinite(values).all()):
            raise DataError(f"labels of groups must be strings or finite numbers; those of the {name} are not")
    ours, theirs = labels.values()
    if (ours.dtype.kind in "US") != (theirs.dtype.kind in "US"):
        raise DataError("labels of groups must be of one kind: those of the rows of the fit and of new rows differ")
    names, numbers = np.unique(theirs, return_inverse=True)
    return tuple(Comparison(np.flatnonzero(numbers == k), np.flatnonzero(ours == name)) for k, name in enumerate(names))


def studentised_ends(
    machines: LeftOutMachines,
    fitted: Array | None,
    X: Any,
    diagonal: Array,
    coverage: Any,
    groups: tuple[Comparison, ...] | None = None,
) -> Array:
    """Return the ends of the conformal set by studentised scores, one line per new point: the whole set.

    ``fitted`` are the predictions there, if the machines have no bias.

    :place [Vovk2005]_ section 2.3: the set of targets by studentised residuals is one interval
    """
    places, pairs, xp = [], [], namespace_of(machines.residuals)
    for compared, (block, f, c, S) in _compare(machines, fitted, X, diagonal, groups):
        below, above = _reach(compared, c, S, rank(coverage, int(compared.alpha.shape[0])))
        places.append(np.arange(block.start, block.stop) if isinstance(block, slice) else block)
        pairs.append(xp.stack([f - S * below, f + S * above], axis=-1))
    order = on_device_of(machines.residuals, np.argsort(np.concatenate(places), kind="stable"))
    ends: Array = xp.take(xp.concat(pairs, axis=0), order, axis=0)
    return ends


@dataclass(frozen=True, slots=True)
class PredictiveDistribution:
    r"""A distribution of every new target, by the sorted thresholds :math:`C_{(1)} \le \dots \le C_{(n)}`, in numpy.

    Parameters
    ----------
    thresholds : array of shape (n_points, n) or (n_points, n_outputs, n)
        Ascending; in groups of fewer rows filled up by infinity.
    sizes : array of shape (n_points,) or (n_points, n_outputs)
        The number n of rows that each point was compared with.
    """

    thresholds: Array
    sizes: Any

    def cdf(self, y: Any) -> Array:
        """Return the share of thresholds up to y, which is always between both :meth:`bounds`; NaN without any row.

        ``y`` is a number, or one for each point (and output).
        """
        with np.errstate(invalid="ignore"):
            return self._count(y, strictly=False) / np.where(self.sizes > 0, self.sizes, np.nan)

    def bounds(self, y: Any) -> Array:
        """Return the lower and the upper distribution function at y, in the last axis; they differ by 1/(n + 1), or
        more where thresholds are equal.

        If rows and new row are exchangeable, a number drawn evenly between both is uniform on (0, 1).
        """
        below, upto = self._count(y, strictly=True), self._count(y, strictly=False)
        return np.stack([below, upto + 1.0], axis=-1) / (np.asarray(self.sizes)[..., None] + 1.0)

    def quantile(self, level: float) -> Array:
        """Return the least threshold that a new target is at or below with probability ``level`` or more.

        That is the :math:`\\lceil` level (n + 1) :math:`\\rceil`-th, infinite where there are too few rows.
        """
        exact_level(level, "level")
        return self._at([rank(level, n) for n in self._every_size()])

    def interval(self, coverage: float = 0.9) -> Array:
        """Return lower and upper ends, each missed with at most half of 1 - coverage, in the last axis."""
        tail = (1 - exact_level(coverage)) / 2
        ranks = [int(tail * (n + 1)) for n in self._every_size()]  # the integer part: rounded down
        upper = self._at([n + 1 - low for n, low in zip(self._every_size(), ranks, strict=True)])
        return np.stack([self._at(ranks), upper], axis=-1)

    def crps(self, y: Any) -> Array:
        r"""Return the continuous ranked probability score of every target ([Gneiting2007]_ eq. (21)), in units of y.

        .. math:: \int (F(z) - 1[z \ge y])^2 dz
                  = \frac1n \sum_i |C_i - y| - \frac1{n^2} \sum_i (2 i - n - 1)\, C_{(i)} ,

        F the function of :meth:`cdf`; infinite without rows.
        """
        target = self._targets(y)
        is_row = np.arange(self.thresholds.shape[-1]) < np.asarray(self.sizes)[..., None]
        distances = np.where(is_row, self.thresholds, 0.0) - np.where(is_row, target[..., None], 0.0)
        n = np.asarray(self.sizes, dtype=np.float64)
        weights = np.where(is_row, 2.0 * np.arange(1, is_row.shape[-1] + 1) - n[..., None] - 1.0, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.abs(distances).sum(axis=-1) / n - (weights * distances).sum(axis=-1) / (n * n)
        return np.where((n > 0) & np.isfinite(distances).all(axis=-1), np.maximum(score, 0.0), np.inf)

    def _every_size(self) -> list[int]:
        return [int(n) for n in np.ravel(self.sizes)]

    def _at(self, ranks: list[int]) -> Array:
        """Return the threshold of each rank, from 1 on; infinite below and above."""
        lines = self.thresholds.reshape(len(ranks), -1)
        edges = np.full((len(ranks), 1), np.inf)
        padded = np.concatenate([-edges, lines, edges], axis=1)
        picked = np.minimum(np.asarray(ranks, dtype=np.intp), padded.shape[1] - 1)
        return np.take_along_axis(padded, picked[:, None], axis=1)[:, 0].reshape(np.shape(self.sizes))

    def _count(self, y: Any, *, strictly: bool) -> Array:
        """Return the number of thresholds below y, or up to it; those that fill up are infinite."""
        target = self._targets(y)[..., None]
        is_row = np.arange(self.thresholds.shape[-1]) < np.asarray(self.sizes)[..., None]
        is_below = self.thresholds < target if strictly else self.thresholds <= target
        return np.asarray((is_below & is_row).sum(axis=-1), dtype=np.float64)

    def _targets(self, y: Any) -> Array:
        shape = np.shape(self.sizes)
        values = real_array(np.atleast_1d(to_numpy(y)), "y", ndim=max(1, np.ndim(y)))
        if np.ndim(y) > 0 and values.shape != shape:
            raise DataError(
                f"y must be a number, or one for each point: expected shape {shape}, received {values.shape}"
            )
        return np.broadcast_to(values, shape) if np.ndim(y) > 0 else np.full(shape, values[0])


def predictive_distribution(
    machines: LeftOutMachines,
    fitted: Array | None,
    X: Any,
    diagonal: Array,
    groups: tuple[Comparison, ...] | None = None,
) -> PredictiveDistribution:
    """Compute the thresholds of every new point, by one sort each.

    :place [Vovk2018]_ studentised machine: the thresholds of the distribution
    """
    n_points = int(X.shape[0])
    most = machines.n if groups is None else max((len(group.rows) for group in groups), default=0)
    thresholds, sizes = np.full((n_points, most), np.inf), np.zeros(n_points, dtype=np.intp)
    for compared, (places, f, c, S) in _compare(machines, fitted, X, diagonal, groups):
        rising, _ = _slopes(c, compared.diagonal * S[:, None])
        values = f[:, None] + S[:, None] * _quotient(compared.alpha, rising)
        n = int(compared.alpha.shape[0])
        thresholds[places, :n] = np.sort(to_numpy(values), axis=1)
        sizes[places] = n
    return PredictiveDistribution(thresholds, sizes)


class _Compared(NamedTuple):
    """Support values and diagonal of the rows that count."""

    alpha: Array
    diagonal: Array


class _Points(NamedTuple):
    """New points: their places, f(x), the influence c of the rows that count, and S."""

    places: Any
    fitted: Array
    influence: Array
    scale: Array


def _compare(
    machines: LeftOutMachines, fitted: Array | None, X: Any, diagonal: Array, groups: tuple[Comparison, ...] | None
) -> Iterator[tuple[_Compared, _Points]]:
    """Yield the rows that count, with blocks of the new points compared with them: f, c of those rows, and S."""
    if groups is None:
        ridge = _common_ridge(machines, None)
        for block, f, c, p in machines.blocks(X, diagonal, fitted):
            yield _Compared(machines.support_values, machines.diagonal), _Points(block, f, c, p + ridge)
        return
    ridges = [_common_ridge(machines, group.rows) for group in groups]  # refused before any work
    for (points, rows), ridge in zip(groups, ridges, strict=True):
        here = on_device_of(diagonal, points)
        xp = namespace_of(diagonal)
        at = None if fitted is None else xp.take(fitted, here, axis=0)
        columns = on_device_of(machines.residuals, rows)
        compared = _Compared(
            xp.take(machines.support_values, columns, axis=0), xp.take(machines.diagonal, columns, axis=0)
        )
        for block, f, c, p in machines.blocks(take_rows(X, points), xp.take(diagonal, here, axis=0), at):
            yield compared, _Points(points[block], f, xp.take(c, columns, axis=1), p + ridge)


def _common_ridge(machines: LeftOutMachines, rows: Any) -> float:
    """Return 1/(gamma v) of the rows, which is also that of the new one; refuse weights that differ."""
    if machines.ridge is None:
        return Regularization(machines.gamma).lam
    ridge = to_numpy(machines.ridge) if rows is None else to_numpy(machines.ridge)[rows]
    if ridge.size and (ridge != ridge[0]).any():
        raise DataError(
            "studentised scores need rows of equal weight, in groups within each group: rows of unequal weight are not "
            "exchangeable with a new one; use method='conformal', which is then approximate, or calibrate(X, y) and "
            "method='split'"
        )
    return float(ridge[0]) if ridge.size else Regularization(machines.gamma).lam


def _reach(compared: _Compared, c: Array, S: Array, k: int) -> tuple[Array, Array]:
    """Return how far the set reaches below and above f(x), in units of S, by as many rows as needed."""
    n, xp = int(compared.alpha.shape[0]), namespace_of(c)
    few = TRIED * (n + 1 - k)
    if few < n and k <= n:
        last, bound_of_others = last_to_leave(_latest(compared, c, S), few)
        columns = on_device_of(S, last)
        some = _Compared(xp.take(compared.alpha, columns, axis=0), xp.take(compared.diagonal, columns, axis=0))
        reaches = _both_sides(some, xp.take(c, columns, axis=1), S, k - (n - few))
        if all(bool(xp.all(S * reach >= bound_of_others)) for reach in reaches):
            return reaches
    return _both_sides(compared, c, S, k)


def _both_sides(compared: _Compared, c: Array, S: Array, k: int) -> tuple[Array, Array]:
    if k > int(compared.alpha.shape[0]):
        return (zeros_beside(S, int(S.shape[0])) + np.inf,) * 2
    xp = namespace_of(c)
    plus, minus = _slopes(c, compared.diagonal * S[:, None])
    size, is_above = xp.abs(compared.alpha), compared.alpha > 0.0
    below = _quotient(size, xp.where(is_above, minus, plus))
    above = _quotient(size, xp.where(is_above, plus, minus))
    return kth_smallest(below, k), kth_smallest(above, k)


def _latest(compared: _Compared, c: Array, S: Array) -> Array:
    """Return where each row has left, at all these points; infinity where that is not known."""
    xp = namespace_of(c)
    most = xp.maximum(xp.max(c, axis=0), -xp.min(c, axis=0))
    far = xp.sqrt(compared.diagonal * xp.max(S) + most * most) + most
    has_bound = compared.diagonal > 0.0
    bound = xp.abs(compared.alpha) * far / xp.where(has_bound, compared.diagonal, 1.0)
    return xp.where(has_bound, bound, np.inf)  # type: ignore[no-any-return]


def _slopes(c: Array, BS: Array) -> tuple[Array, Array]:
    r"""Return :math:`\sqrt{P} + c` and :math:`\sqrt{P} - c`, each to rounding: the smaller by the product of both."""
    xp = namespace_of(c)
    size = xp.abs(c)
    far = xp.sqrt(size * size + BS) + size
    near = BS / xp.where(far > 0.0, far, 1.0)
    return xp.where(c >= 0.0, far, near), xp.where(c >= 0.0, near, far)


def _quotient(alpha: Array, slopes: Array) -> Array:
    """Return alpha over the slopes: zero for a row without error, infinite for one that never leaves."""
    xp = namespace_of(slopes)
    is_positive = slopes > 0.0
    values = alpha / xp.where(is_positive, slopes, 1.0)
    edge = xp.full_like(alpha, np.inf)
    never = xp.where(alpha > 0.0, edge, xp.where(alpha < 0.0, -edge, xp.zeros_like(alpha)))
    return xp.where(is_positive, values, never)  # type: ignore[no-any-return]
