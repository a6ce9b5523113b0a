r"""How much a machine depends on single rows: the change of its predictions when each is left out.

.. math:: \max_x |f(x) - f^{(-i)}(x)| \quad \text{for every row } i, \qquad
          \max_i |f(x) - f^{(-i)}(x)| \quad \text{for every point } x

Without a refit (:mod:`substrate.uncertainty.influence`). With one input the prediction is drawn with the range in which
it stays whichever row is left out, and the rows that change it most; else the largest changes, in order.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, GREY, LEGEND, axes_for, column_names, demand, unit_of, with_unit
from problems.estimators.full.ls_svm import LSSVMModel
from substrate.arrays import Array, is_sparse
from substrate.errors import DeclarationError
from substrate.namespaces import to_numpy

__all__ = ["RowInfluenceDisplay"]

#: Rows that are marked.
_MARKED = 5


@dataclass(eq=False, repr=False)
class RowInfluenceDisplay:
    """Changes of predictions by leaving out one row.

    Parameters
    ----------
    changes : array of shape (n_points, n_rows)
        f less f without a row, at every point.
    predictions : array of shape (n_points,)
        f at the points.
    rows : array of shape (n_rows,)
        The numbers of the rows in the data of the fit.
    places : array of shape (n_points,) or None
        The input at the points, where there is only one.
    row_places : array of shape (n_rows,) or None
        The input at the rows, where there is only one.
    name, target : str
        Of the input and of y.

    Attributes
    ----------
    ax_, figure_
        Axes and figure.
    """

    changes: Array
    predictions: Array
    rows: Array
    places: Array | None = None
    row_places: Array | None = None
    name: str = "x"
    target: str = "y"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, output: int = 0, names: Any = None, target: str = "y", ax: Any = None
    ) -> Self:
        """Draw the changes at the points X; ``output`` is the number of an output."""
        demand(estimator, (LSSVMModel,), cls.__name__, "LSSVMRegressor and its CV twin")
        if not hasattr(estimator, "influence_of_rows"):
            raise DeclarationError(f"{cls.__name__} draws regressors, received {type(estimator).__name__}")
        X = np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
        changes = np.asarray(to_numpy(estimator.influence_of_rows(X)))
        changes = changes[:, None, :] if changes.ndim == 2 else changes
        if not 0 <= output < changes.shape[1]:
            raise DeclarationError(f"the model has outputs 0 to {changes.shape[1] - 1}; received output={output!r}")
        predictions = np.reshape(to_numpy(estimator.predict(X)), changes.shape[:2])[:, output]
        is_curve = X.shape[1] == 1 and not estimator.kernel_.pairwise
        return cls(
            changes=changes[:, output],
            predictions=predictions,
            rows=np.asarray(estimator.support_),
            places=X[:, 0] if is_curve else None,
            row_places=np.asarray(to_numpy(estimator.support_vectors_))[:, 0] if is_curve else None,
            name=column_names(estimator, names)[0],
            target=target,
        ).plot(ax)

    @property
    def largest(self) -> Array:
        """Return the largest change that each row makes at any of the points."""
        return np.asarray(np.abs(self.changes).max(axis=0))

    @property
    def stability(self) -> Array:
        """Return the largest change at each point that any row makes."""
        return np.asarray(np.abs(self.changes).max(axis=1))

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given, or on new ones."""
        self.figure_, (self.ax_,) = axes_for(ax)
        first = np.argsort(-self.largest, kind="stable")[:_MARKED]
        if self.places is not None and self.row_places is not None:
            order = np.argsort(self.places, kind="stable")
            without = self.predictions[:, None] - self.changes
            ends = without.min(axis=1)[order], without.max(axis=1)[order]
            self.ax_.fill_between(self.places[order], *ends, color=GREY, alpha=0.5, linewidth=0.0)
            self.ax_.plot([], [], "s", color=GREY, alpha=0.5, label="whichever row is left out")
            self.ax_.plot(self.places[order], self.predictions[order], "-", color=ACCENT, linewidth=2.0, label="fit")
            low = float(min(ends[0].min(), self.predictions.min()))
            label = f"the {first.size} rows that change it most"
            self.ax_.plot(self.row_places[first], np.full(first.size, low), "^", color="black", label=label)
            self.ax_.set(xlabel=with_unit(self.name), ylabel=with_unit(self.target))
        else:
            sizes = np.sort(self.largest)[::-1]
            self.ax_.plot(np.arange(1, sizes.size + 1), sizes, "o", color=ACCENT, markersize=4.0, label="one row each")
            for place, row in enumerate(first, start=1):
                self.ax_.annotate(f" row {self.rows[row]}", (place, sizes[place - 1]), fontsize="small", va="center")
            self.ax_.set(
                xlabel="rows by their influence (number)", ylabel=f"largest change of f ({unit_of(self.target)})"
            )
        title = f"leaving out one row changes a prediction by at most {float(self.largest.max()):.4g}"
        self.ax_.set_title(f"{title} ({unit_of(self.target)})", fontsize="small")
        self.ax_.legend(**LEGEND)
        return self
