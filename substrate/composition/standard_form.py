"""The numbers cvxpy hands to a solver: P, q, A, b, and the cones the rows of A belong to."""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.composition.cones import CONES

__all__ = ["StandardForm"]


class StandardForm:
    """The numbers a solver is given, and the cones the rows of A belong to."""

    def __init__(self, program: Any, solver: str) -> None:
        self._program = program
        self._at: tuple[Any, tuple[Any, ...]] = (None, ())
        self.columns = dict(program.var_id_to_col)
        # cvxpy turns the rows of equalities round when it writes them for a conic solver
        self.sign = 1.0 if program.formatted else -1.0
        self.cones: list[tuple[str, slice, list[int]]] = []
        self.keys: list[int] = []
        start = 0
        for constraint in program.constraints:
            rows = slice(start, start + constraint.size)
            start = rows.stop
            self.keys.append(constraint.id)
            self.cones.append((type(constraint).__name__, rows, _sizes(constraint)))
        kinds = {kind for kind, _, _ in self.cones}
        # ECOS orders the entries of an exponential cone in its own way
        self.understood = kinds <= CONES and not (solver == "ECOS" and "ExpCone" in kinds)
        self.height = start
        # some solvers are given bounds of variables apart from the rows
        bounds = [getattr(program, name, None) for name in ("lower_bounds", "upper_bounds")]
        self.bounded = any(bound is not None and bool(np.isfinite(bound).any()) for bound in bounds)

    def numbers(self) -> tuple[Any, Array, Any, Array]:
        """P, q, A, b at the parameters' present values."""
        program, size = self._program, self._program.x.size
        key = tuple(np.asarray(parameter.value).tobytes() for parameter in program.parameters)
        if self._at[0] != key:
            if program.reduced_P.matrix_data is None:
                P, (q, _, A, b) = _nothing(size, size), program.apply_parameters()
            else:
                P, q, _, A, b = program.apply_parameters(quad_obj=True)
            self._at = (key, (P, q, A, b) if self.height else (P, q, _nothing(0, size), np.zeros(0)))
        P, q, A, b = self._at[1]
        return P, q, A, b

    def point(self, x: Array, values: dict[int, Any]) -> Array:
        """x with the given values at the places of their variables."""
        x = x.copy()
        for key, value in values.items():
            if key in self.columns:
                start = self.columns[key]
                x[start : start + np.size(value)] = np.ravel(value, order="F")
        return x

    def multipliers(self, duals: dict[int, Array]) -> Array | None:
        """z, row by row; None where its order is not known."""
        if not self.understood or not all(key in duals for key in self.keys):
            return None
        parts = [
            self.sign * duals[key] if kind == "Zero" else duals[key]
            for key, (kind, _, _) in zip(self.keys, self.cones, strict=True)
        ]
        z = np.concatenate([np.zeros(0), *parts])
        return z if z.size == self.height else None


def _sizes(constraint: Any) -> list[int]:
    """Dimensions of the cones a constraint gathers."""
    return list(constraint.cone_sizes()) if hasattr(constraint, "cone_sizes") else [constraint.size]


def _nothing(rows: int, columns: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((rows, columns))
