r"""Equality constraints of a machine, without those that follow from the others up to rounding.

In coordinates, equalities :math:`E x + b = 0` can be more than their rank: known values at many points of a smooth
kernel, the same value twice, or more values than there are directions above the rounding of the kernel. In rows of
equal length, :math:`D E = W \Sigma V^T`; directions with :math:`\sigma_j` above a small share of the largest are kept,
and as many more as the values that are asked for need,

.. math:: C (E x + b) = 0, \qquad C = \Sigma_1^{-1} W_1^T D, \qquad C E = V_1^T ,

whose rows are orthonormal, so that a solver meets no badly scaled ones. Where something is left out this is a
relaxation: its optimum is nowhere above that of the machine. What is left of the others,
:math:`\|(I - W_1 W_1^T) D b\|` row by row, is compared with the values that are asked for; equalities that contradict
each other by more are left as they are, for a solver to refuse. The multipliers of the user's equalities are
:math:`\nu = C^T \mu`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import rank_cutoff
from substrate.composition.conic import StandardForm

__all__ = ["IndependentEqualities"]

#: Smallest singular value, as a share of the largest, of equalities that count as independent: the root of what
#: rounding leaves of the eigenvalues of a kernel.
_INDEPENDENT = 1e-8
#: The same of equalities that are left as they are.
_WELL_SCALED = 1e-3
#: Share of what is asked for to which directions are added while there are any, and by which dependent equalities may
#: contradict each other: with less than the latter the machine is solved, and its certificate judges the violation.
_ACHIEVED, _CONSISTENT = 1e-6, 1e-4
#: Largest number of equalities that are decomposed.
_LARGEST = 2000


@dataclass(frozen=True, slots=True, eq=False)
class IndependentEqualities:
    """Which constraints of a machine are combined, C, C b, and the columns of V_1' that belong to each variable."""

    numbers: tuple[int, ...]
    combined: Array
    constants: Array
    rows: tuple[tuple[Any, Array], ...]

    @property
    def rank(self) -> int:
        """The number of equalities that are kept."""
        return int(self.combined.shape[0])

    @property
    def dependent(self) -> bool:
        """Whether some equalities follow from the others."""
        return self.rank < self.count

    @property
    def count(self) -> int:
        """The number of equalities of the machine."""
        return int(self.combined.shape[1])

    @classmethod
    def of(cls, constraints: Sequence[Any]) -> "IndependentEqualities | None":
        """Return the equalities among these constraints; None where they are well scaled, or parameters decide."""
        numbers = tuple(
            k for k, constraint in enumerate(constraints) if _is_equality(constraint) and not constraint.parameters()
        )
        size = sum(constraints[k].size for k in numbers)
        if not 2 <= size <= _LARGEST:
            return None
        chosen = cp.Problem(cp.Minimize(0.0), [constraints[k] for k in numbers])
        if not chosen.variables():
            return None
        form = StandardForm(chosen.get_problem_data("CLARABEL")[0]["param_prob"], "CLARABEL")
        _, _, A, b = form.numbers()
        A, b = -form.sign * A, -form.sign * b  # of the expressions as they are written
        if form.bounded or A.shape[0] != size or {kind for kind, _, _ in form.cones} != {"Zero"}:
            return None
        E = A.toarray()
        lengths = np.linalg.norm(E, axis=1)
        if not np.isfinite(E).all() or not (lengths > 0.0).all():
            return None
        W, s, Vt = np.linalg.svd(E / lengths[:, None], full_matrices=False)
        if W.shape[1] == size and s[-1] > _WELL_SCALED * s[0]:
            return None
        rank = _rank(W, s, b / lengths)
        if not rank:
            return None
        W, s = W[:, :rank], s[:rank]
        C, Vt = W.T / s[:, None] / lengths, Vt[:rank]
        starts = [(variable, form.columns[variable.id]) for variable in chosen.variables()]
        rows = tuple((variable, Vt[:, start : start + variable.size]) for variable, start in starts)
        return cls(numbers, C, C @ b, rows)

    def reduce(self, constraints: Sequence[Any], shifts: Sequence[Any] = ()) -> list[Any]:
        """Return the other constraints, and then the independent equalities.

        ``shifts`` are changes of the left-hand sides of the equalities, where there are any.
        """
        kept = [constraint for k, constraint in enumerate(constraints) if k not in self.numbers]
        total = cp.Constant(self.constants)
        for variable, columns in self.rows:
            total = total + cp.Constant(columns) @ cp.vec(variable, order="F")
        if shifts:
            total = total + cp.Constant(self.combined) @ cp.hstack([cp.vec(shift, order="F") for shift in shifts])
        return [*kept, total == 0.0]

    def save_multipliers(self, constraints: Sequence[Any], reduced: Any) -> None:
        """Give the equalities the multipliers that follow from those of the reduced ones."""
        value = reduced.dual_variables[0].value
        if value is None:
            return
        every, start = self.combined.T @ np.ravel(value, order="F"), 0
        for k in self.numbers:
            constraint = constraints[k]
            values = every[start : start + constraint.size]
            start += constraint.size
            constraint.dual_variables[0].save_value(values.reshape(constraint.dual_variables[0].shape, order="F"))


def _rank(W: Array, s: Array, target: Array) -> int:
    """Return the number of directions to keep: the independent ones, and as many more as what is asked for needs.

    Zero where directions above rounding do not suffice: the equalities contradict each other.
    """
    rank, last = int((s > _INDEPENDENT * s[0]).sum()), int((s > rank_cutoff(s.size) * s[0]).sum())
    size = max(float(np.abs(target).max()), np.finfo(float).tiny)
    remainder = target - W[:, :rank] @ (W[:, :rank].T @ target)
    while rank < last and float(np.abs(remainder).max()) > _ACHIEVED * size:
        remainder = remainder - W[:, rank] * float(W[:, rank] @ remainder)
        rank += 1
    return rank if float(np.abs(remainder).max()) <= _CONSISTENT * size else 0


def _is_equality(constraint: Any) -> bool:
    return type(constraint).__name__ in ("Equality", "Zero")
