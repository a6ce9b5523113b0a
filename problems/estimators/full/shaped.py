r"""LS-SVM regression whose shape holds everywhere: slopes, curvatures and bounds of f with proof.

.. math:: \min_{w,b,e} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i e_i^2 \quad\text{s.t.}\quad
          \sigma_j (D_j f)(x) \ge c_j \quad\text{for all } x \text{ of the box of the rows.}

The machine is composed (:mod:`substrate.composition.shaped_machine`), so that cvxpy is imported by such a fit and by no
other. A stored machine has its own bracket, from which ``certify`` and ``prove`` start
(:mod:`substrate.composition.shaped_least_squares`).
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from problems.estimators.full.saddle_fit import center_and_unit, ridges_of
from problems.estimators.full.saddle_machine import ChosenKernel, LSSVMModel
from problems.estimators.shared.base import WeightedRows
from problems.estimators.shared.checked_again import StoredFit
from problems.estimators.shared.checks import column_number
from problems.estimators.shared.coded import Coding
from substrate.arrays import Array, is_device_array, is_sparse, to_numpy
from substrate.certificates import Certificate, warn_unless_holds
from substrate.errors import DataError, DeclarationError

if TYPE_CHECKING:
    from substrate.kernels.nodes import Node

__all__ = [
    "ShapedModel",
    "evaluate_further",
    "express_further",
]

#: Facts of the composed machine that the certificate of the estimator repeats.
_FACTS = ("solver", "points of the shapes", "no machine that holds everywhere")


def read_shapes(model: Any, n_features: int) -> Any:
    """Return the shapes by column number, checked."""
    from substrate.composition.shaped_least_squares import ShapeParameters

    names = getattr(model, "feature_names_in_", ())

    def signs(given: Any, name: str) -> dict[int, int]:
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise DeclarationError(f"{name} must be a dict of columns to 1 or -1, as {{0: 1}}; received {given!r}")
        wrong = [sign for sign in given.values() if isinstance(sign, bool) or sign not in (1, -1)]
        if wrong:
            raise DeclarationError(f"{name} has 1 (rising, convex) or -1 (falling, concave), received {wrong[0]!r}")
        return {column_number(column, name, n_features, names): int(sign) for column, sign in given.items()}

    convex, jointly = model.convex, False
    if isinstance(convex, str):
        if convex != "jointly":
            raise DeclarationError(f"convex must be 'jointly', a list of columns or a dict, received {convex!r}")
        convex, jointly = None, True
    elif convex is not None and not isinstance(convex, Mapping):
        convex = dict.fromkeys(np.atleast_1d(np.asarray(convex, dtype=object)).tolist(), 1)
    return ShapeParameters(
        monotone=signs(model.monotone, "monotone"),
        convex=signs(convex, "convex"),
        jointly=jointly,
        bounds=_ends(model.bounds),
        names=tuple(map(str, names)),
    )


def _ends(bounds: Any) -> tuple[float | None, float | None]:
    if bounds is None:
        return None, None
    try:
        lower, upper = (None if end is None else float(end) for end in bounds)
    except (TypeError, ValueError) as error:
        raise DeclarationError(
            f"bounds must be a pair of numbers or None, as (0, None); received {bounds!r}"
        ) from error
    known = [end for end in (lower, upper) if end is not None]
    if not all(np.isfinite(known)) or (len(known) == 2 and known[0] >= known[1]):
        raise DeclarationError(f"bounds must be finite, the lower below the upper, received {bounds!r}")
    return lower, upper


class ShapedModel(LSSVMModel):
    """The LS-SVM on all rows with a shape: further terms of the expansion, ``shape_points_``, hold it everywhere."""

    def refuse_combinations(self) -> None:
        """Refuse parameters that exclude each other, before any work."""
        model = self.estimator
        if model.robust is not None:
            raise DeclarationError("robust weights are of a machine without a shape; leave robust out, or the shape")
        if model.c is not None:
            raise DeclarationError("c is given to the plain machine: leave robust, monotone, convex and bounds out")
        if np.size(model.linear_columns):
            raise DeclarationError("shapes are of the kernel machine alone; leave linear_columns out, or the shape")
        super().refuse_combinations()

    def fit_rows(self, rows: WeightedRows, coded: Coding, Y: Array, chosen: ChosenKernel) -> None:
        """Fit the machine with its shape, and keep its expansion and its certificate."""
        model, X, kernel, gammas = self.estimator, rows.X, chosen.kernel, chosen.gammas
        if Y.shape[1] > 1:
            raise DataError(f"a shape is of one output, received {Y.shape[1]}; fit one model for each")
        if is_device_array(X):
            raise DataError("a machine with a shape works on numpy arrays; take X and y to numpy first")
        if kernel.pairwise:
            raise DeclarationError("a precomputed matrix says nothing between its points; pass X and the kernel itself")
        X = X.toarray() if is_sparse(X) else np.asarray(X)
        y, gamma, v = np.ascontiguousarray(Y[:, 0]), gammas[0], np.asarray(rows.weights)
        shapes = read_shapes(model, X.shape[1])
        box = np.column_stack([X.min(axis=0), X.max(axis=0)])
        center, unit = center_and_unit(y)
        lower, upper = (None if end is None else (end - center) / unit for end in shapes.bounds)
        scaled = replace(shapes, bounds=(lower, upper))
        result, further = _solve(kernel, X, (y - center) / unit, gamma, v, scaled, box)
        a, b = unit * result.expansions[0].coefficients, unit * float(result.expansions[0].b) + center
        further = replace(further, coefficients=unit * further.coefficients, multipliers=unit * further.multipliers)
        model.shape_points_, model.shape_orders_ = further.points, further.orders
        model.shape_coefficients_, model.shape_multipliers_ = further.coefficients, further.multipliers
        model.shape_box_ = box
        model.kernel_, model.support_vectors_, model.support_ = kernel, X.copy(), rows.numbers
        model.bias_, model.support_values_ = b, a
        stored = _stored(model, X, y, gamma, v, shapes)
        facts = tuple(fact for fact in result.certificate.record if fact[0] in _FACTS)
        facts += (("box of the shapes", " x ".join(f"[{low:g}, {high:g}]" for low, high in box)),)
        certificate = Certificate(model._title, (*stored.certify()[0], *chosen.added[0]), (*facts, *chosen.added[1]))
        del model.support_values_  # set last, when nothing can fail any more
        model.solver_, model.ridge_, model.n_iter_ = "cvxpy", ridges_of(gammas, v), 1
        model.certificate_ = certificate
        warn_unless_holds(certificate, dict(facts).get("no machine that holds everywhere", ""))
        model._keep_expansion(X, rows.numbers, kernel, a, b)

    def recall_rows(self, X: Any, Y: Array, weights: Array, gammas: tuple[float, ...]) -> StoredFit:
        """Return the stored machine on the rows of its fit, which carries its own bracket."""
        points = X.toarray() if is_sparse(X) else np.asarray(X)
        shapes = read_shapes(self.estimator, points.shape[1])
        y, v = np.ascontiguousarray(Y[:, 0]), np.asarray(weights)
        return StoredFit([_stored(self.estimator, points, y, gammas[0], v, shapes)])

    def refuse_shape(self, what: str) -> None:
        """Refuse closed forms of one linear system, of which this machine is not the solution."""
        raise DeclarationError(
            f"{what} is a closed form of the machine without a shape, and this one has one. For intervals keep rows "
            "and call calibrate(X, y), then predict_interval(X, method='split'); for left-out errors use "
            "cross_val_predict; for gamma use LSSVMRegressorCV(..., cv=5)"
        )


def _solve(kernel: Any, X: Array, y: Array, gamma: float, weights: Array, shapes: Any, box: Array) -> tuple[Any, Any]:
    """Return the result of the machine, which has the facts of the solution, and the expansion besides the rows."""
    import cvxpy as cp

    from substrate.composition.level import Substrate
    from substrate.composition.machine import Machine
    from substrate.composition.shaped_least_squares import ShapedExpansion

    s = Substrate(kernel, X, y)
    loss = cp.sum_squares(cp.multiply(np.sqrt(0.5 * gamma * weights), s.e))
    constraints = shapes.constraints(s, box)
    result = Machine(s, minimize=loss + 0.5 * s.squared_norm, subject_to=constraints).solve()
    return result, ShapedExpansion.of(result, constraints)


def _further(model: Any) -> Any:
    from substrate.composition.shaped_least_squares import ShapedExpansion

    return ShapedExpansion(
        model.shape_points_, model.shape_orders_, model.shape_coefficients_, model.shape_multipliers_
    )


def _stored(model: Any, X: Array, y: Array, gamma: float, weights: Array, shapes: Any) -> Any:
    from substrate.composition.shaped_least_squares import ShapedLeastSquares

    return ShapedLeastSquares(
        kernel=model.kernel_,
        X=X,
        y=y,
        gamma=gamma,
        weights=weights,
        a=np.asarray(model.support_values_),
        b=float(model.bias_),
        further=_further(model),
        shapes=shapes,
        box=model.shape_box_,
        fitted=np.asarray(model._fitted_values(X)),
    )


def evaluate_further(model: Any, X: Any, values: Array) -> Array:
    """Return the predictions with the further terms, and warn once where rows are outside the box."""
    points = X.toarray() if is_sparse(X) else to_numpy(X)
    box = model.shape_box_
    if not getattr(model, "_told_outside", False) and ((points < box[:, 0]) | (points > box[:, 1])).any():
        model._told_outside = True
        warnings.warn(
            "some rows are outside the box of the training rows, in which the shape holds; nothing is promised there",
            UserWarning,
            stacklevel=4,
        )
    return np.asarray(values + _further(model).values(model.kernel_, points))


def express_further(model: Any, x: "Sequence[Node]", outputs: "list[Node]") -> "list[Node]":
    """Return the formula of a machine with the further terms, derivatives of the kernel at their points."""
    from substrate.kernels.nodes import add_outputs, expand_kernel

    further = _further(model)
    for orders, at in further.kinds():
        terms = expand_kernel(model.kernel_, further.points[at], further.coefficients[at, None], x, orders)
        outputs = add_outputs(outputs, terms)
    return outputs
