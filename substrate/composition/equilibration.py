r"""Cone programs in units in which their numbers are of the order of one, whatever the units of the targets are.

cvxpy writes :math:`\|v\|^2 \le t` as :math:`(t + 1, t - 1, 2v) \in \mathcal{Q}`. With targets in units of
:math:`10^6` the bound t is :math:`10^{12}`, and no solver sees the 1 beside it. Such a program is given to the solver
in other coordinates: the columns of variables that cvxpy introduced are multiplied by numbers :math:`d_j`, the rows of
every constraint by a number :math:`e_k`, and the first two rows of a second-order cone are exchanged for

.. math::

    s_0' = \tfrac12 (p / \sigma + \sigma m), \quad s_1' = \tfrac12 (p / \sigma - \sigma m), \qquad
    p = s_0 + s_1, \quad m = s_0 - s_1 .

This maps the cone onto itself, since :math:`s_0'^2 - s_1'^2 = p\, m = s_0^2 - s_1^2`. Multipliers go back by the
transposed map, which is the same one. All factors are powers of two, and :math:`\sigma` is used only where p and m are
exact, so that both programs are the same one. The factors are the solution, by least squares in logarithms, of

.. math:: \log |A_{kj}| + \log e_k \mp \log \sigma_k + \log d_j = 0

over the largest entries of every constraint in the columns of every variable; the problem's own variables and the
constant term have the factor one, as they are in units of the targets already.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.composition.conic import CONES, StandardForm, StandardNumbers, Witness, WitnessedProblem

__all__ = ["EquilibratedForm", "EquilibratedProblem", "Equilibration"]

#: The solver whose numbers are equilibrated: it takes quadratic terms and all cones of a machine.
_SOLVER = "CLARABEL"
#: Factors up to this power of two are left to the solver's own scaling.
_LITTLE = 4.0
#: Largest number of factors that are computed.
_MOST = 2000


@dataclass(frozen=True, slots=True)
class Equilibration:
    """The factors: of columns, of rows, and sigma of second-order cones with the rows ``heads`` they begin at."""

    columns: Array
    rows: Array
    heads: Any
    sigma: Array

    @classmethod
    def of(cls, form: StandardForm, variable_ids: Iterable[int]) -> "Equilibration | None":
        """Return the factors for a program with the given variables of its own; None where it needs none."""
        kinds = {kind for kind, _, _ in form.cones}
        if "SOC" not in kinds or not kinds <= CONES or form.bounded:
            return None
        _, q, A, b = form.numbers()
        A = sp.csr_array(A)
        if not np.isfinite(A.data).all() or not np.isfinite(b).all():
            return None
        logs = _Logarithms(form, q.size, set(variable_ids))
        heads: list[Array] = []
        for number, (kind, rows, sizes) in enumerate(form.cones):
            starts = rows.start + np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
            if kind == "SOC" and min(sizes, default=0) > 1 and _exact(A, b, starts):
                first, second = (A[starts], b[starts]), (A[starts + 1], b[starts + 1])
                logs.add(number, first[0] + second[0], first[1] + second[1], -1.0)
                logs.add(number, first[0] - second[0], first[1] - second[1], 1.0)
                tail = np.setdiff1d(np.arange(rows.start, rows.stop), np.append(starts, starts + 1))
                logs.add(number, A[tail], b[tail], 0.0)
                heads.append(starts)
            else:
                logs.add(number, A[rows], b[rows], 0.0)
                heads.append(np.zeros(0, dtype=np.intp))
        logarithms = logs.solve(len(form.cones))
        if logarithms is None:
            return None
        e, sigma, d = logarithms
        scales = np.concatenate(
            [np.full(rows.stop - rows.start, f) for f, (_, rows, _) in zip(e, form.cones, strict=True)]
        )
        every = np.concatenate(
            [np.full(heads_of_cone.size, factor) for factor, heads_of_cone in zip(sigma, heads, strict=True)]
        )
        return cls(d, scales, np.concatenate(heads).astype(np.intp), every)

    def numbers(self, P: Any, q: Array, A: Any, b: Array) -> StandardNumbers:
        """Return the numbers in the new coordinates."""
        D = sp.diags_array(self.columns)
        rows = self._exchange_heads(sp.csr_array(A))
        E = sp.diags_array(self.rows)
        constants = self.rows * self._exchange_heads(sp.csr_array(b[:, None])).toarray()[:, 0]
        return StandardNumbers(sp.csr_array(D @ P @ D), self.columns * q, sp.csr_array(E @ rows @ D), constants)

    def multipliers(self, z: Array) -> Array:
        """Return the multipliers of the program as it was, for those in the new coordinates."""
        return np.asarray(self._exchange_heads(sp.csr_array((self.rows * z)[:, None])).toarray()[:, 0])

    def _exchange_heads(self, M: Any) -> Any:
        """Return the rows of a matrix, with those of the heads of cones exchanged; the map is symmetric."""
        if not self.heads.size:
            return M
        p, m = M[self.heads] + M[self.heads + 1], M[self.heads] - M[self.heads + 1]
        S, R = sp.diags_array(0.5 * self.sigma), sp.diags_array(0.5 / self.sigma)
        first, second = R @ p + S @ m, R @ p - S @ m
        height, count = M.shape[0], self.heads.size
        factors = np.ones(height)
        factors[self.heads] = factors[self.heads + 1] = 0.0
        spots = [sp.csr_array((np.ones(count), (self.heads + k, np.arange(count))), (height, count)) for k in (0, 1)]
        return sp.csr_array(sp.diags_array(factors) @ M + spots[0] @ first + spots[1] @ second)


class _Logarithms:
    """The equations for the logarithms of the factors, one for the largest entry of each constraint and variable."""

    def __init__(self, form: StandardForm, width: int, variable_ids: set[int]) -> None:
        starts = sorted((start, key) for key, start in form.columns.items())
        #: The block of every column; zero is that of the problem's own variables and of the constants.
        self._block = np.zeros(width, dtype=np.intp)
        self._blocks = 0
        for place, (start, key) in enumerate(starts):
            stop = starts[place + 1][0] if place + 1 < len(starts) else width
            if key not in variable_ids:
                self._blocks += 1
                self._block[start:stop] = self._blocks
        self._equations: list[tuple[int, float, int, float]] = []

    def add(self, constraint: int, rows: Any, constants: Array, side: float) -> None:
        """Add the equations of some rows, whose factor is e sigma^side."""
        entries = sp.coo_array(rows)
        largest = np.zeros(self._blocks + 1)
        np.maximum.at(largest, self._block[entries.coords[1]], np.abs(entries.data))
        largest[0] = max(largest[0], float(np.abs(constants).max(initial=0.0)))
        for block in np.flatnonzero(largest):
            self._equations.append((constraint, side, int(block), float(np.log2(largest[block]))))

    def solve(self, constraints: int) -> tuple[Array, Array, Array] | None:
        """Return e and sigma of every constraint and d of every column; None where they are of the order of one."""
        size = 2 * constraints + self._blocks
        if size > _MOST or not self._equations:
            return None
        system = np.zeros((len(self._equations), size))
        right = np.zeros(len(self._equations))
        for row, (constraint, side, block, value) in enumerate(self._equations):
            system[row, constraint], system[row, constraints + constraint] = 1.0, side
            if block:
                system[row, 2 * constraints + block - 1] = 1.0
            right[row] = -value
        factors = np.round(np.linalg.lstsq(system, right, rcond=1e-10)[0])
        if not (np.abs(factors[constraints:]) > _LITTLE).any() or (np.abs(factors) > 500.0).any():
            return None
        e, sigma, d = np.split(2.0**factors, [constraints, 2 * constraints])
        return e, sigma, np.append(1.0, d)[self._block]


def _exact(A: Any, b: Array, starts: Array) -> bool:
    """Return whether sums and differences of the first two rows of cones are exact."""
    for first, second in ((A[starts], A[starts + 1]), (b[starts], b[starts + 1])):
        for sign in (1.0, -1.0):
            total = first + sign * second
            remainders = [(total - sign * second) - first, (total - first) - sign * second]
            if any(
                float(abs(remainder).max() if remainder.shape[0] and remainder.size else 0.0)
                for remainder in remainders
            ):
                return False
    return True


class EquilibratedForm(StandardForm):
    """The standard form in the new coordinates, with the solver's multipliers there."""

    def __init__(self, program: Any, solver: str, scaling: Equilibration, z: Array) -> None:
        super().__init__(program, solver)
        self._scaling, self._z = scaling, z
        self._scaled: StandardNumbers | None = None
        self._scaled_from: Any = None

    def numbers(self) -> StandardNumbers:
        """Return the numbers at the parameters' present values."""
        before = super().numbers()
        if self._scaled is None or self._scaled_from is not before.A:
            self._scaled_from, self._scaled = before.A, self._scaling.numbers(*before)
        return self._scaled

    def multipliers(self, duals: dict[int, Array]) -> Array | None:
        """Return z, row by row, as the solver found it: those of the program as it was would round some of it away."""
        return self._z if super().multipliers(duals) is not None else None


class EquilibratedProblem(WitnessedProblem):
    """A witnessed problem whose cones are equilibrated before the solver sees them."""

    #: Shorter steps than the solver's own keep the iterates of second-order cones central: with its own ones, 14 of 60
    #: machines end before their multipliers are as accurate as their certificate requires, with these none.
    solver_options: ClassVar[dict[str, dict[str, float]]] = {_SOLVER: {"max_step_fraction": 0.9}}
    _scaling: Equilibration | None = None
    _scaled_point: tuple[Array, Array] | None = None

    def get_problem_data(self, solver: str, *args: Any, **kwargs: Any) -> Any:
        """Compile as cvxpy does, and equilibrate the numbers for the solver."""
        data, chain, inverse = super().get_problem_data(solver, *args, **kwargs)
        self._scaling = None
        if solver == _SOLVER:
            form = StandardForm(data["param_prob"], solver)
            self._scaling = Equilibration.of(form, [variable.id for variable in self.variables()])
            if self._scaling is not None:
                P, q, A, b = self._scaling.numbers(*form.numbers())
                data = {**data, "P": sp.csc_array(P), "c": q, "A": sp.csc_array(-A), "b": b}
        return data, chain, inverse

    def unpack_results(self, solution: Any, chain: Any, inverse_data: Any) -> None:
        """Unpack the answer in the coordinates of the problem."""
        scaling, self._scaled_point = self._scaling, None
        if scaling is not None and chain.solver.name() == _SOLVER and solution.x is not None:
            x, z = (np.asarray(vector, dtype=np.float64) for vector in (solution.x, solution.z))
            self._scaled_point = x, z
            solution = SimpleNamespace(
                status=solution.status,
                x=scaling.columns * x,
                z=scaling.multipliers(z),
                obj_val=solution.obj_val,
                solve_time=solution.solve_time,
                iterations=solution.iterations,
            )
        super().unpack_results(solution, chain, inverse_data)

    def witness_of(self, name: str, x: Array, duals: dict[int, Array]) -> Witness:
        """Return the point as a witness, in the coordinates in which the solver found it."""
        point, plain = self._scaled_point, super().witness_of(name, x, duals)
        scaling = self._scaling
        if point is None or scaling is None:
            return plain
        form = EquilibratedForm(plain.form.program, name, scaling, point[1])
        return Witness(
            form=form,
            unit=plain.unit,
            cost_unit=plain.cost_unit,
            variable_ids=plain.variable_ids,
            x=point[0],
            duals=plain.duals,
            read=plain.read,
        )
