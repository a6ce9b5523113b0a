r"""The support values of the sparse substrate along zeta, and how many there are.

.. math:: \min_{a, b} \tfrac12 \|y - K a - b 1\|^2 + \zeta \|a\|_1 \quad \text{s.t.} \quad 1^T a = 0

([Pelckmans2005]_ eq. (16); :mod:`substrate.paths.l1_homotopy`). The path is exact: lines are straight in zeta between
knots, so that they bend on a logarithmic axis, where they are drawn through further points.
"""

from itertools import pairwise
from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, LEGEND, axes_for, demand, distinct
from problems.estimators.fused_ways import OverZeta
from problems.estimators.substrates import L1SubstrateClassifier, L1SubstrateRegressor
from substrate.arrays import Array, is_sparse, real_array
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.paths.knots import Path
from substrate.paths.l1_homotopy import l1_path

__all__ = ["L1PathDisplay"]

#: Rows that get a name; the others are thin grey lines.
_NAMED = 5
#: Points drawn between two knots, which a logarithmic axis bends.
_BETWEEN = 4


class L1PathDisplay:
    """Coefficients and their number over zeta.

    Parameters
    ----------
    values : array of shape (n_points,)
        zeta, ascending: the knots and points between them.
    coefficients : array of shape (n_points, n_rows)
        The coefficients there; NaN in holes of the path, where nothing is claimed and nothing is drawn.
    zeta : float or None
        The zeta of a model, if there is one.

    Attributes
    ----------
    axes_, figure_
        The two axes, coefficients and number of support vectors, and their figure.
    """

    def __init__(self, values: Array, coefficients: Array, zeta: float | None = None) -> None:
        self.values = values
        self.coefficients = coefficients
        self.zeta = zeta

    @classmethod
    def from_path(cls, path: Path, zeta: float | None = None, *, ax: Any = None) -> Self:
        """Draw a path of :func:`substrate.paths.l1_homotopy.l1_path`, with a mark at ``zeta``."""
        if not isinstance(path, Path) or path.parameter != "zeta":
            raise DeclarationError(f"L1PathDisplay draws a path in zeta, as l1_path returns; received {path!r}")
        knots = path.values[path.values > 0.0]
        if knots.size < 2:
            raise DataError(f"the path has {knots.size} knot(s) at a positive zeta, nothing to draw: {path.stop}")
        inner = [np.geomspace(low, high, _BETWEEN + 1)[:-1] for low, high in pairwise(knots)]
        values = np.concatenate([*inner, knots[-1:]])
        nothing = np.full(path.at(float(knots[-1])).primal.size, np.nan)
        coefficients = np.array([path.at(float(v)).primal if path.covers(float(v)) else nothing for v in values])
        return cls(values, coefficients, zeta).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, machine: int = 0, ax: Any = None) -> Self:
        """Draw the path on these rows with the kernel of a fitted model, and a mark at the model's zeta."""
        usable = "L1SubstrateRegressor, L1SubstrateClassifier and their fused twins"
        demand(estimator, (OverZeta, L1SubstrateRegressor, L1SubstrateClassifier), cls.__name__, usable)
        X = X if is_sparse(X) else real_array(X, "X", ndim=2)
        given = np.asarray(y)
        if given.shape != (X.shape[0],):
            raise DataError(f"y must have one entry per row of X: {X.shape[0]}, received shape {given.shape}")
        if hasattr(estimator, "classes_"):
            strange = np.setdiff1d(given, estimator.classes_)
            if strange.size or not 0 <= machine < estimator.code_book_.shape[1]:
                raise DataError(
                    f"y must hold classes of the model, and machine be below {estimator.code_book_.shape[1]}; received "
                    f"classes {strange[:5]} besides, machine {machine!r}"
                )
            target = estimator.code_book_[np.searchsorted(estimator.classes_, given), machine]
        else:
            target = real_array(y, "y", ndim=1)
        rows = np.flatnonzero(target) if hasattr(estimator, "classes_") else np.arange(target.size)
        K = np.array(Gram.of(estimator.kernel_, X).block(rows).matrix)
        zeta = estimator.best_parameter_ if isinstance(estimator, OverZeta) else estimator.zeta
        known = np.ascontiguousarray(target[rows])
        path = l1_path(K, known, zeta / 10.0 if zeta > 0.0 else None)
        if len(path) < 2:  # the model's zeta is far above zeta_max
            path = l1_path(K, known)
        return cls.from_path(path, float(zeta), ax=ax)

    @property
    def n_support(self) -> Array:
        """How many coefficients are not zero between one point and the next (at a knot one may be); NaN in holes."""
        nonzero = self.coefficients != 0.0
        counts = np.count_nonzero(nonzero[:-1] | nonzero[1:], axis=1).astype(np.float64)
        unknown = np.asarray(np.isnan(self.coefficients).any(axis=1))
        return np.where(unknown[:-1] | unknown[1:], np.nan, counts)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the two axes given, or on new ones."""
        self.figure_, self.axes_ = axes_for(ax, 2, 1, (7.0, 6.0), sharex=True, height_ratios=(3, 1.4))
        above, below = self.axes_
        sizes = np.nan_to_num(np.abs(self.coefficients))
        here = 0 if self.zeta is None else int(np.argmin(np.abs(self.values - self.zeta)))
        rank = np.lexsort((sizes.max(axis=0), sizes[here]))[::-1]  # the largest where the model is
        rank = rank[sizes[:, rank].max(axis=0) > 0.0]
        for row in rank[_NAMED:]:
            above.plot(self.values, self.coefficients[:, row], "-", color="0.7", linewidth=0.8)
        if rank.size > _NAMED:
            above.lines[-1].set_label(f"{rank.size - _NAMED} others")
        for row, style in zip(rank, distinct(min(_NAMED, rank.size)), strict=False):
            above.plot(self.values, self.coefficients[:, row], markevery=0.1, label=f"row {row}", **style)
        below.stairs(self.n_support, self.values, baseline=None, color="black", linewidth=1.4)
        below.yaxis.get_major_locator().set_params(integer=True)
        if self.zeta is not None and self.zeta > 0.0:
            for axes in self.axes_:
                axes.axvline(self.zeta, color=ACCENT, linestyle=":", linewidth=1.6)
            above.lines[-1].set_label(f"zeta = {self.zeta:.4g}")
        above.set_xscale("log")
        below.set_xscale("log")
        above.set_ylabel("support value a (units of y / kernel)")
        above.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **LEGEND)
        below.set(xlabel="zeta (units of y times kernel)", ylabel="support vectors\n(number)")
        return self
