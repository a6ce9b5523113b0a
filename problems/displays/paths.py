r"""Diagrams of solution paths: maximal variations over rho, and the support values of the L1 substrate over zeta.

The maximal variation evolution diagram shows which components are left as rho grows,

.. math:: t_l(\rho) = \max_i |f^l(x_i)|, \qquad
          \min_{\alpha, b, t} \tfrac12 \|e\|^2 + \rho \sum_l t_l

([Pelckmans2005]_ Fig. 4 and 6). The upper panel shows t of every component along the exact path, affine in rho between
knots; the lower one the error on the validation rows, the rho that fusion chose, and the lower bound over all rho of
the path. The errors are joined by chords; between two knots the exact error is a parabola below its chord. Near rho = 0
components may be enormous and cancel each other, so that by default the diagram begins a little below the optimum.

The path of the sparse substrate shows the support values over zeta, and their number,

.. math:: \min_{a, b} \tfrac12 \|y - K a - b 1\|^2 + \zeta \|a\|_1 \quad \text{s.t.} \quad 1^T a = 0

([Pelckmans2005]_ eq. (16); :mod:`substrate.fits.paths`). The path is exact: lines are straight in
zeta between knots, so that they bend on a logarithmic axis, where they are drawn through further points.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, LEGEND, axes_for, column_names, demand, distinct, unit_of
from problems.estimators.chosen.fused_ways import OverRho, OverZeta
from problems.estimators.full.substrates import L1SubstrateClassifier, L1SubstrateRegressor
from problems.estimators.shared.model import has_part
from substrate.arrays import Array, is_sparse, non_negative, real_array
from substrate.errors import DataError, DeclarationError
from substrate.fits.paths import Path, describe_coverage, l1_path
from substrate.gram import Gram

__all__ = ["EvolutionDiagramDisplay", "L1PathDisplay"]

#: Number of components with a name; the others are thin grey lines.
_NAMED = 6
#: Default begin of the diagram, as a share of the chosen rho.
_BELOW_BEST = 0.05
#: Points drawn beside the knots: a logarithmic axis bends the lines between them.
_POINTS = 200


@dataclass(eq=False, repr=False)
class EvolutionDiagramDisplay:
    """Maximal variations and validation error over rho.

    Parameters
    ----------
    values : array of shape (n_knots,)
        rho at the knots of the path, ascending.
    maximal_variation : array of shape (n_knots, n_components)
        t at the knots.
    validation_errors : array of shape (n_knots,)
        Mean squared error on the validation rows at the knots.
    best_parameter, validation_error, lower_bound : float
        The rho of fusion, its error, and the lower bound over all rho of ``coverage``.
    names : list of str
        One name per component.
    target : str
        The name of y, in whose unit t and rho are given.
    rho_min : float or None
        Where the diagram begins; 0 draws all of it on a linear axis.
    coverage : pair of float
        The values of rho that the lower bound covers.

    Attributes
    ----------
    axes_, figure_
        The two axes, maximal variations and validation error, and their figure.
    """

    values: Array
    maximal_variation: Array
    validation_errors: Array
    best_parameter: float
    validation_error: float
    lower_bound: float
    names: list[str]
    target: str = "y"
    rho_min: float | None = None
    coverage: tuple[float, float] = (0.0, np.inf)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Any = None, target: str = "y", rho_min: float | None = None, ax: Any = None
    ) -> Self:
        """Draw the path of a fused maximal variation machine; ``names`` are of the inputs, ``target`` of y."""
        usable = "FusedMaximalVariationRegressor and FusedMaximalVariationClassifier"
        demand(estimator, (OverRho,), cls.__name__, usable)
        path = estimator.path_
        if "parameters" in path:
            raise DataError("this model chose one rho for each group of inputs; fit groups=None for a path in one rho")
        if "maximal_variation" not in path:
            raise DataError(
                "this path is of several folds or machines, which have a maximal variation each; fit two classes or a "
                "regression with one validation set: cv=None"
            )
        inputs = column_names(estimator, names)
        each = estimator._model.component_columns()
        components = [", ".join(inputs[column] for column in columns) for columns in each]
        return cls(
            values=np.asarray(path["values"]),
            maximal_variation=np.asarray(path["maximal_variation"]),
            validation_errors=np.asarray(path["criterion"]),
            best_parameter=estimator.rho_,
            validation_error=estimator.criterion_,
            lower_bound=estimator.criterion_lower_bound_,
            names=components,
            target=target,
            rho_min=None if rho_min is None else non_negative(rho_min, "rho_min", "as a weight"),
            coverage=tuple(path["coverage"]),
        ).plot(ax)

    def at_best(self) -> Array:
        """Return t at the chosen rho, between the two knots beside it."""
        return np.array([np.interp(self.best_parameter, self.values, t) for t in self.maximal_variation.T])

    def values_to_draw(self) -> Array:
        """Return the rho at which curves are drawn: the knots from ``rho_min`` on, and points between them."""
        first, largest = float(self.values[0]), float(self.values[-1])
        low = _BELOW_BEST * self.best_parameter if self.rho_min is None else self.rho_min
        low = min(max(low, first), largest)
        between = np.geomspace(low, largest, _POINTS) if 0.0 < low < largest else np.array([low, largest])
        return np.union1d(between.clip(low, largest), self.values[self.values >= low])

    def plot(self, ax: Any = None) -> Self:
        """Draw on the two axes given, or on new ones."""
        self.figure_, self.axes_ = axes_for(ax, 2, 1, (7.0, 6.0), sharex=True, height_ratios=(3, 2))
        above, below = self.axes_
        # the components that matter at the optimum are named; where those are few, the largest elsewhere too
        rank = np.lexsort((self.maximal_variation.max(axis=0), self.at_best()))[::-1]
        styles = distinct(min(_NAMED, rank.size))
        rho = self.values_to_draw()
        t = np.array([np.interp(rho, self.values, column) for column in self.maximal_variation.T])
        for component in rank[_NAMED:]:
            above.plot(rho, t[component], color="0.7", linewidth=0.8)
        if rank.size > _NAMED:
            above.lines[-1].set_label(f"{rank.size - _NAMED} others")
        for component, style in zip(rank, styles, strict=False):
            above.plot(rho, t[component], markevery=0.09, label=self.names[component], **style)
        errors = np.interp(rho, self.values, self.validation_errors)
        below.plot(rho, errors, "-", color="black", linewidth=1.4, label="validation")
        place = f"fused optimum: rho = {self.best_parameter:.4g}, error {self.validation_error:.4g}"
        below.plot([self.best_parameter], [self.validation_error], "o", color=ACCENT, markersize=8, label=place)
        if np.isfinite(self.lower_bound):
            bound = f"{describe_coverage('rho', self.coverage)}: {self.lower_bound:.4g}"
            below.axhline(self.lower_bound, color="0.35", linestyle="--", linewidth=1.2, label=bound)
        for axes in self.axes_:
            axes.axvline(self.best_parameter, color=ACCENT, linestyle=":", linewidth=1.4)
            axes.set_xscale("log" if rho[0] > 0.0 else "linear")
        above.set_ylabel(f"maximal variation t ({unit_of(self.target)})")
        above.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **LEGEND)
        below.set_xlabel(f"rho ({unit_of(self.target)})")
        below.set_ylabel(f"mean squared error\n({unit_of(self.target)}, squared)")
        below.legend(**LEGEND)
        return self


#: Number of rows with a name; the others are thin grey lines.
_NAMED_VALUES = 5
#: Points drawn between two knots, which a logarithmic axis bends.
_BETWEEN = 4


@dataclass(eq=False, repr=False)
class L1PathDisplay:
    """Coefficients and their number over zeta.

    Parameters
    ----------
    values : array of shape (n_points,)
        zeta, ascending: the knots and points between them.
    coefficients : array of shape (n_points, n_rows)
        The coefficients there.
    zeta : float or None
        The zeta of a model, if there is one.

    Attributes
    ----------
    axes_, figure_
        The two axes, coefficients and number of support vectors, and their figure.
    """

    values: Array
    coefficients: Array
    zeta: float | None = None

    @classmethod
    def from_path(cls, path: Path, zeta: float | None = None, *, ax: Any = None) -> Self:
        """Draw a path of :func:`substrate.fits.paths.l1_path`, with a mark at ``zeta``."""
        if not isinstance(path, Path) or path.parameter != "zeta":
            raise DeclarationError(f"L1PathDisplay draws a path in zeta, as l1_path returns; received {path!r}")
        knots = path.values[path.values > 0.0]
        if knots.size < 2:
            raise DataError(f"the path has {knots.size} knot(s) at a positive zeta, nothing to draw: {path.stop}")
        inner = [np.geomspace(low, high, _BETWEEN + 1)[:-1] for low, high in pairwise(knots)]
        values = np.concatenate([*inner, knots[-1:]])
        coefficients = np.array([path.at(float(v)).primal for v in values])
        return cls(values, coefficients, zeta).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, machine: int = 0, ax: Any = None) -> Self:
        """Draw the path on these rows with the kernel of a fitted model, and a mark at the model's zeta."""
        usable = "L1SubstrateRegressor, L1SubstrateClassifier and their fused twins"
        demand(estimator, (OverZeta, L1SubstrateRegressor, L1SubstrateClassifier), cls.__name__, usable)
        X = X if is_sparse(X) else real_array(X, "X", ndim=2)
        labels = np.asarray(y)
        if labels.shape != (X.shape[0],):
            raise DataError(f"y must have one entry per row of X: {X.shape[0]}, received shape {labels.shape}")
        if estimator._labels:
            strange = np.setdiff1d(labels, estimator.classes_)
            if strange.size or not 0 <= machine < estimator.code_book_.shape[1]:
                raise DataError(
                    f"y must hold classes of the model, and machine be below {estimator.code_book_.shape[1]}; received "
                    f"classes {strange[:5]} besides, machine {machine!r}"
                )
            target = estimator.code_book_[np.searchsorted(estimator.classes_, labels), machine]
        else:
            target = real_array(y, "y", ndim=1)
        rows = np.flatnonzero(target) if estimator._labels else np.arange(target.size)
        K = np.array(Gram.of(estimator.kernel_, X).restrict(rows).matrix)
        zeta = estimator.zeta_ if has_part(estimator, OverZeta) else estimator.zeta
        row_targets = np.ascontiguousarray(target[rows])
        path = l1_path(K, row_targets, zeta / 10.0 if zeta > 0.0 else None)
        if len(path) < 2:  # the model's zeta is far above zeta_max
            path = l1_path(K, row_targets)
        return cls.from_path(path, float(zeta), ax=ax)

    @property
    def n_support(self) -> Array:
        """Return how many coefficients are not zero between one point and the next (at a knot one may be)."""
        nonzero = self.coefficients != 0.0
        return np.asarray(np.count_nonzero(nonzero[:-1] | nonzero[1:], axis=1), dtype=np.float64)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the two axes given, or on new ones."""
        self.figure_, self.axes_ = axes_for(ax, 2, 1, (7.0, 6.0), sharex=True, height_ratios=(3, 1.4))
        above, below = self.axes_
        sizes = np.abs(self.coefficients)
        position = 0 if self.zeta is None else int(np.argmin(np.abs(self.values - self.zeta)))
        rank = np.lexsort((sizes.max(axis=0), sizes[position]))[::-1]  # the largest where the model is
        rank = rank[sizes[:, rank].max(axis=0) > 0.0]
        for row in rank[_NAMED_VALUES:]:
            above.plot(self.values, self.coefficients[:, row], "-", color="0.7", linewidth=0.8)
        if rank.size > _NAMED_VALUES:
            above.lines[-1].set_label(f"{rank.size - _NAMED_VALUES} others")
        for row, style in zip(rank, distinct(min(_NAMED_VALUES, rank.size)), strict=False):
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
