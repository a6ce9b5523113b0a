r"""What was observed of f: values, derivatives, integrals, averages, or what an operator makes of it.

.. math:: y_i = \ell_i f + e_i

with a bounded linear functional :math:`\ell_i` for each observation. The representers of all of them join the
expansion (:mod:`substrate.composition.span`), so that a machine that penalises w has the optimum over all w, as it has
with values alone. Blocks of observations of different kinds are given side by side,
``Substrate(kernel, [X, Z], [y, slopes], observed=["value", {0: 1}])``.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse, real_array, real_points
from substrate.composition.linear_operators import VALUE, Functional, Integral, KernelAction, LinearOperator, Measure
from substrate.errors import DataError, DeclarationError
from substrate.ingredients import signed_labels

__all__ = ["Observations", "ObservedBlock", "checked_targets", "without_single_column"]

_KINDS = (
    "'value', 'integral' (at boxes or measures), 'average' (at groups of points), orders of a derivative by column as "
    "{0: 1}, a LinearOperator or a KernelAction"
)


@dataclass(frozen=True, eq=False)
class ObservedBlock:
    """Observations of one kind: where they were made, as points, boxes or measures, and how many there are."""

    kind: Any
    at: Any
    count: int

    @classmethod
    def of(cls, kind: Any, at: Any, name: str) -> "ObservedBlock":
        """Return a block with its places checked; ``name`` is their name in a refusal."""
        if kind == "average":
            groups = at if isinstance(at, (list, tuple)) or np.ndim(at) == 3 else ()
            if not len(groups) or any(np.ndim(group) != 2 for group in groups):
                raise DataError(
                    f"averages are observed over groups of points: {name} must be a list of arrays of points, one "
                    f"array per observation, received {type(at).__name__}"
                )
            return cls("integral", tuple(Measure.of_points(group) for group in groups), len(groups))
        if kind == "integral":
            measures = Integral.of(at).measures
            return cls(kind, measures, len(measures))
        if isinstance(kind, Mapping):
            kind = LinearOperator.derivative(kind)
        if not isinstance(kind, (LinearOperator, KernelAction)) and kind != "value":
            raise DeclarationError(f"observed is {_KINDS}, or a list of these; received {kind!r}")
        points = real_points(at, name)
        points = np.asarray(points.toarray() if is_sparse(points) else points)
        return cls(kind, points, points.shape[0])

    @property
    def has_values(self) -> bool:
        """Return whether f itself was observed."""
        return isinstance(self.kind, str) and self.kind == "value"

    def locate(self) -> Array:
        """Return points of the inputs at which something was observed: those given, or the middles of boxes."""
        if self.kind != "integral":
            return np.asarray(self.at)
        boxes = np.concatenate([measure.boxes for measure in self.at])
        return np.asarray(0.5 * (boxes[..., 0] + boxes[..., 1]))

    def read(self, reader: Any) -> Any:
        """Return the values of a substrate, declared or solved, for the observations."""
        if self.has_values:
            return reader.f(self.at) if hasattr(reader, "holders") else reader.predict(self.at)
        if self.kind == "integral":
            return reader.integral(self.at)
        return reader.apply(self.kind, self.at)

    def functional(self, substrate: Any) -> tuple[Functional, Any]:
        """Return what reads the observations of a substrate, and its rows."""
        if self.has_values:
            return VALUE, self.at
        if self.kind == "integral":
            functional, rows = substrate.resolve_integral(self.at)
            return functional, rows
        return substrate.resolve_operator(self.kind), self.at


@dataclass(frozen=True, eq=False)
class Observations:
    """All observations of a substrate, block by block, with their targets.

    ``points`` are the training points of the substrate: where values were observed, if there are two of them, and
    otherwise where anything was; ``values`` are the targets there, or None.
    """

    blocks: tuple[ObservedBlock, ...]
    targets: Array
    points: Array
    values: Array | None
    column_names: tuple[str, ...]

    @classmethod
    def of(cls, X: Any, y: Any, observed: Any) -> "Observations":
        """Return what the arguments of a substrate declare."""
        several = isinstance(observed, (list, tuple))
        kinds = list(observed) if several else [observed]
        places = _as_blocks(X, len(kinds), "X") if several else [X]
        blocks = [
            ObservedBlock.of(kind, at, f"X[{number}]" if several else "X")
            for number, (kind, at) in enumerate(zip(kinds, places, strict=True))
        ]
        if not blocks:
            raise DeclarationError(f"observed is an empty list; name what was observed: {_KINDS}")
        targets = _check_targets(y, [block.count for block in blocks], several)
        located = [block.locate() for block in blocks]
        widths = {points.shape[1] for points in located}
        if len(widths) > 1:
            raise DataError(f"all observations must be on the same columns, received {sorted(widths)} columns")
        of_values = [number for number, block in enumerate(blocks) if block.has_values]
        edges = np.cumsum([0, *(block.count for block in blocks)])
        points, values = np.concatenate(located), None
        if sum(blocks[number].count for number in of_values) >= 2:
            points = np.concatenate([located[number] for number in of_values])
            values = np.concatenate([targets[edges[number] : edges[number + 1]] for number in of_values])
        names = next((tuple(map(str, at.columns)) for at in places if hasattr(at, "columns")), ())
        return cls(blocks=tuple(blocks), targets=targets, points=points, values=values, column_names=names)

    @property
    def are_values(self) -> Any:
        """Return whether each observation is a value of f, as an array."""
        return np.concatenate([np.full(block.count, block.has_values) for block in self.blocks])

    def read(self, substrate: Any) -> Any:
        """Return the observed quantities as an expression, block after block."""
        import cvxpy as cp

        readings = [block.read(substrate) for block in self.blocks]
        return readings[0] if len(readings) == 1 else (cp.hstack if self.targets.ndim == 1 else cp.vstack)(readings)

    def evaluate(self, expansion: Any) -> Array:
        """Return the values of a fitted function for the observations."""
        return np.concatenate([np.asarray(block.read(expansion)) for block in self.blocks])


def _as_blocks(values: Any, count: int, name: str) -> Sequence[Any]:
    if not isinstance(values, (list, tuple)) or len(values) != count:
        received = f"{len(values)} entries" if isinstance(values, (list, tuple)) else type(values).__name__
        raise DataError(
            f"{name} must be a list with one entry for each of the {count} kinds observed, received {received}"
        )
    return values


def _check_targets(y: Any, counts: list[int], several: bool) -> Array:
    """Return one target per observation; of several blocks a list of them, or all in one."""
    if y is None:
        raise DataError("observations have targets; give y, or leave observed out")
    if several and isinstance(y, (list, tuple)) and any(np.ndim(y_of_block) for y_of_block in y):
        blocks = [
            without_single_column(real_array(y_of_block, f"y[{k}]", ndim=(1, 2)), f"y[{k}]")
            for k, y_of_block in enumerate(_as_blocks(y, len(counts), "y"))
        ]
        for k, (block, count) in enumerate(zip(blocks, counts, strict=True)):
            if block.shape[0] != count:
                raise DataError(
                    f"y[{k}] must have one entry per observation: expected {count}, received {block.shape[0]}"
                )
        shapes = {block.shape[1:] for block in blocks}
        if len(shapes) > 1:
            raise DataError(f"all blocks of y must have the same columns, received the shapes {sorted(shapes)}")
        return np.concatenate(blocks)
    targets = without_single_column(real_array(y, "y", ndim=(1, 2)))
    if targets.shape[0] != sum(counts):
        raise DataError(f"y must have one entry per observation: expected {sum(counts)}, received {targets.shape[0]}")
    return targets


def without_single_column(targets: Array, name: str = "y") -> Array:
    """Return targets of shape (n, 1) as a vector, with scikit-learn's warning, and others unchanged.

    A column combined with a vector of values is broadcast: ``y - s.f()`` would be an n x n matrix.
    """
    if targets.ndim != 2 or targets.shape[1] != 1:
        return targets
    from sklearn.exceptions import DataConversionWarning

    warnings.warn(
        f"{name} of shape {targets.shape} is one column, where one number per row was expected; it is used as "
        f"{name}.ravel(). Give it so, also in terms of your own such as y - s.f()",
        DataConversionWarning,
        stacklevel=4,
    )
    return targets[:, 0]


def checked_targets(y: Any, n: int, task: str) -> Array:
    """Return one target per point, or a column of them per output."""
    targets = without_single_column(real_array(y, "y", ndim=(1, 2)))
    if targets.shape[0] != n:
        raise DataError(f"y must have one entry per point: expected {n}, received {targets.shape[0]}")
    if task == "classification" and targets.ndim == 2:
        return np.column_stack([signed_labels(column, n, f"y[:, {j}]") for j, column in enumerate(targets.T)])
    return signed_labels(targets, n) if task == "classification" else targets
