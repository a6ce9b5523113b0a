r"""Machines of least squares: their squares as rows of one system, and every observation left out in closed form.

.. math:: J(f) = p \, w^T w + \sum_i q_i \, (t_i - \ell_i f)^2

with bounded functionals :math:`\ell_i` (values, derivatives, integrals, and sums of them) is, over all w, the machine
of :mod:`substrate.least_squares.border` with

.. math:: K_{ij} = \langle \ell_i \varphi, \ell_j \varphi \rangle, \qquad D_{ii} = \frac{p}{q_i}, \qquad Z_i = \ell_i 1,

so that the residual of observation i without it is :math:`\alpha_i / B_{ii}`, and predictions without it, jackknife and
conformal intervals follow as they do for values (:mod:`substrate.uncertainty.influence`). Squares that are no
observations, such as those of the residuals of a differential equation, are rows that stay in. A square that reads an
observation beside the one of its own error would stay in too, and the observation with it: such a machine is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression

from substrate.arrays import Array, real_points
from substrate.composition.further_points import READ, keys_of
from substrate.composition.level import Substrate
from substrate.composition.linear_operators import VALUE, Functional, MeasureIntegral
from substrate.composition.reading import Reading, inner_products, points_of, reading_of
from substrate.errors import DeclarationError
from substrate.gram import Gram
from substrate.least_squares.border import NO_BORDER, ONES, Border
from substrate.least_squares.leave_one_out import leave_one_out_residuals
from substrate.least_squares.saddle_system import solve_saddle_system
from substrate.uncertainty.influence import KernelInfluence, LeftOutMachines, kernel_influence
from substrate.uncertainty.intervals import conformal_ends, jackknife_plus

__all__ = ["METHODS", "SquaredRows", "Squares", "collect_squares"]

#: The methods of intervals.
METHODS = ("conformal", "jackknife+")
#: Share of a coefficient by which the rows of a square may differ from those of the errors: rounding of factors.
_SAME = 1e-12


@dataclass(frozen=True, eq=False)
class Squares:
    """The weight of w'w, the arguments of all other squares with their weights, and what is constant beside them."""

    norm: float
    squares: tuple[tuple[float, Any], ...]
    constant: float


def collect_squares(objective: Any, substrate: Substrate) -> Squares | None:
    """Return the squares that an objective is a sum of; None where there is anything else but constants in it."""
    norms, squares, constants = [0.0], [], [0.0]
    leaves = {id(holder.leaf) for holder in substrate.holders() if holder.role == "squared_norm"}

    def add(term: Any, weight: float) -> bool:
        if term.is_constant():
            constants.append(weight * float(np.sum(term.value)))
            return True
        if isinstance(term, AddExpression):
            return all(add(argument, weight) for argument in term.args)
        if id(term) in leaves:
            norms.append(weight)
            return True
        if isinstance(term, cp.quad_over_lin) and term.args[1].is_constant() and term.args[0].is_affine():
            squares.append((weight / float(term.args[1].value), term.args[0]))
            return True
        inside = _squared(term)
        if inside is not None:
            squares.append((weight, inside))
            return True
        factors = [argument for argument in term.args if argument.is_constant() and argument.is_scalar()]
        others = [argument for argument in term.args if not argument.is_constant()]
        if len(factors) != 1 or len(others) != 1:
            return False
        if isinstance(term, (cp.multiply, MulExpression)):
            return add(others[0], weight * float(factors[0].value))
        return isinstance(term, DivExpression) and add(others[0], weight / float(factors[0].value))

    return Squares(sum(norms), tuple(squares), sum(constants)) if add(objective, 1.0) else None


def _squared(term: Any) -> Any:
    """Return x of a weighted sum of the squares of x, times the roots of its weights; None of any other term."""
    weights: Any = None
    inner: Any = None
    if isinstance(term, MulExpression) and term.args[0].is_constant() and term.is_scalar():
        weights, inner = term.args[0].value, term.args[1]
    elif type(term).__name__ in ("Sum", "sum") and term.axis is None:
        inner = term.args[0]
        if isinstance(inner, cp.multiply) and inner.args[0].is_constant():
            weights, inner = inner.args[0].value, inner.args[1]
    if type(inner).__name__ not in ("power", "Power", "PowerApprox") or not inner.args[0].is_affine():
        return None
    if float(getattr(inner.p, "value", inner.p)) != 2.0:
        return None
    if weights is None:
        return inner.args[0]
    given = np.asarray(weights, dtype=np.float64)
    if (given < 0.0).any() or given.shape not in ((), inner.shape):
        return None
    return cp.multiply(np.sqrt(given), inner.args[0])


@dataclass(frozen=True, eq=False)
class SquaredRows:
    """The rows of a machine of least squares, those of its observations first.

    ``maps`` has a row's coefficients of every reading, ``constants`` what a bias of one adds to it, ``ridge`` is D and
    ``count`` the number of observations.
    """

    substrate: Substrate
    readings: tuple[Reading, ...]
    maps: tuple[Any, ...]
    targets: Array
    constants: Array
    ridge: Array
    count: int

    @classmethod
    def of(
        cls, substrate: Substrate, objective: Any, parameters: Mapping[str, Any], constrained: bool
    ) -> "SquaredRows":
        """Return the rows of a machine of one substrate; refuse one that is not least squares, with the reason."""
        advice = (
            "; leaving out in closed form is for machines that minimise s.squared_norm and cp.sum_squares(s.e), with "
            "weights, and squares of f at other points. Refit without rows instead, or fuse over folds"
        )
        if constrained:
            raise DeclarationError(f"the machine has constraints{advice}")
        if substrate.task != "regression" or substrate.columns or substrate.basis is not None:
            raise DeclarationError(f"the machine has classes, several columns of y or a basis{advice}")
        fixed = {id(p): cp.Constant(parameters[p.name()]) for p in objective.parameters() if p.name() in parameters}
        squares = collect_squares(objective.tree_copy(fixed), substrate)
        if squares is None or squares.norm <= 0.0 or not squares.squares:
            raise DeclarationError(f"its objective is not made of w'w and of squares of affine terms{advice}")
        holders = {id(h.leaf): h for h in substrate.holders() if h.role in READ or h.role == "b"}
        errors = _expand(substrate.e, holders)
        if errors is None:
            raise DeclarationError(f"the errors contain a variable of your own{advice}")
        weights, further = np.zeros(errors.targets.size), []
        for weight, argument in squares.squares:
            rows = _expand(argument, holders)
            if rows is None:
                raise DeclarationError(f"a square contains a variable of your own{advice}")
            scales = _scales(rows, errors)
            if scales is None:
                further.append((weight, rows))
            else:
                weights += weight * scales**2
        if not (weights > 0.0).all():
            raise DeclarationError(f"not every error is in a square of the objective{advice}")
        if any(_reads_observations(substrate, rows, errors, holders) for _, rows in further):
            raise DeclarationError(
                "the loss is not one square for each row: a further square reads f where it was observed, so that a "
                f"row that is left out would stay in it{advice}"
            )
        every = [errors, *(rows for _, rows in further)]
        q = np.concatenate([weights, *(np.full(rows.targets.size, weight) for weight, rows in further)])
        leaves = [key for key in dict.fromkeys(key for rows in every for key in rows.maps) if holders[key].role in READ]
        maps = tuple(
            sp.csr_array(sp.vstack([rows.map_of(key, holders[key].leaf.size) for rows in every])) for key in leaves
        )
        constants = np.zeros(q.size)
        for key, matrix in zip(leaves, maps, strict=True):
            constants += matrix.sum(axis=1) if holders[key].role == "f" else 0.0
        for key in (key for key, holder in holders.items() if holder.role == "b"):
            constants += np.concatenate([rows.map_of(key, 1).toarray()[:, 0] for rows in every])
        return cls(
            substrate=substrate,
            readings=tuple(reading_of(holders[key]) for key in leaves),
            maps=maps,
            targets=np.concatenate([rows.targets for rows in every]),
            constants=constants,
            ridge=squares.norm / q,
            count=errors.targets.size,
        )

    def leave_one_out(self) -> Array:
        """Return y_i minus what the machine without observation i has for it."""
        alpha, influence = self._solve()
        return leave_one_out_residuals(alpha[: self.count], influence.diagonal[: self.count])

    def predict_interval(self, fitted: Array, X: Any, coverage: Any, method: str) -> Array:
        """Return the ends of intervals for new values at the rows of X, from the values among the observations."""
        if method not in METHODS:
            raise DeclarationError(f"method must be one of {', '.join(map(repr, METHODS))}, received {method!r}")
        observed, points = self.substrate.observed, real_points(X)
        rows = np.arange(self.count) if observed is None else np.flatnonzero(observed.are_values)
        if rows.size < 2:
            raise DeclarationError(
                f"intervals of values are made of the errors of other values, and {rows.size} were observed; observe "
                "some"
            )
        alpha, influence = self._solve()
        diagonal = np.asarray(self.substrate.kernel.diag(points))
        restricted = influence.restrict(rows)
        residuals = leave_one_out_residuals(alpha[rows], restricted.diagonal)
        machines = LeftOutMachines(
            influence=restricted,
            support_values=alpha[rows],
            residuals=residuals,
            ridge=self.ridge[rows],
        )
        interval = conformal_ends if method == "conformal" else jackknife_plus
        return interval(machines, fitted, points, diagonal, coverage)

    def _solve(self) -> tuple[Array, KernelInfluence]:
        """Return alpha, and the influence of all rows."""
        gram, border = Gram.from_matrix(self._matrix()), self._border()
        alpha = np.asarray(solve_saddle_system(gram, self.targets, self.ridge, border=border).support_values)
        gram.release()
        return alpha, kernel_influence(gram, self.ridge, partial(self._represent, border), border)

    def _border(self) -> Border:
        if not self.substrate.bias:
            return NO_BORDER
        if (self.constants == 1.0).all():
            return ONES
        return Border.of(self.constants[:, None], 1.0 / self.ridge, ["the bias"], constant=False)

    def _matrix(self) -> Array:
        K = np.zeros((self.ridge.size, self.ridge.size))
        for left, rows in zip(self.readings, self.maps, strict=True):
            for right, columns in zip(self.readings, self.maps, strict=True):
                K += rows @ (columns @ inner_products(self.substrate, left, right).T).T
        return (K + K.T) / 2.0

    def _represent(self, border: Border, X: Any) -> Array:
        values = np.zeros((X.shape[0], self.ridge.size))
        for reading, rows in zip(self.readings, self.maps, strict=True):
            values += (rows @ inner_products(self.substrate, Reading(X), reading).T).T
        return values if not border.slopes else np.column_stack([values, np.ones(X.shape[0])])


@dataclass(frozen=True, eq=False)
class _ExpandedRows:
    """t - sum of maps times what is read, by the variables that stand for it."""

    targets: Array
    maps: dict[int, Any]

    def map_of(self, key: int, width: int) -> Any:
        """Return the coefficients of one reading, zero where there is none."""
        return self.maps.get(key, sp.csr_array((self.targets.size, width)))


def _expand(argument: Any, holders: Mapping[int, Any]) -> _ExpandedRows | None:
    """Return an affine expression as targets and coefficients; None where it has other variables."""
    leaves = argument.variables()
    if any(id(leaf) not in holders for leaf in leaves):
        return None
    fresh = {id(leaf): cp.Variable(leaf.shape) for leaf in leaves}
    copy = argument.tree_copy(fresh)
    for variable in fresh.values():
        variable.value = np.zeros(variable.shape)
    targets = np.ravel(np.asarray(copy.value, dtype=np.float64), order="F")
    slopes = copy.grad
    maps = {
        key: -sp.csr_array(sp.csc_matrix(slopes[variable]).T) for key, variable in fresh.items() if variable in slopes
    }
    return _ExpandedRows(targets, maps)


def _reads_observations(
    substrate: Substrate, rows: _ExpandedRows, errors: _ExpandedRows, holders: Mapping[int, Any]
) -> bool:
    """Return whether rows read what was observed, at a place where it was: values of f, components among them."""
    observed = _list_readings(substrate, errors, holders)
    return any(points & observed.get(kind, set()) for kind, points in _list_readings(substrate, rows, holders).items())


def _list_readings(
    substrate: Substrate, rows: _ExpandedRows, holders: Mapping[int, Any]
) -> dict[Functional | type, set[bytes]]:
    """Return what rows read, each with the keys of its points; of measures their numbers, whichever they are."""
    found: dict[Functional | type, set[bytes]] = {}
    for key, matrix in rows.maps.items():
        if holders[key].role not in READ:
            continue
        reading = reading_of(holders[key])
        kind = reading.operator or VALUE
        points = points_of(substrate, reading)[np.unique(matrix.nonzero()[1])]
        found.setdefault(MeasureIntegral if isinstance(kind, MeasureIntegral) else kind, set()).update(keys_of(points))
    return found


def _scales(rows: _ExpandedRows, errors: _ExpandedRows) -> Array | None:
    """Return the factor of each row where the rows are multiples of the errors, in their order; None where not."""
    if rows.targets.size != errors.targets.size or rows.maps.keys() != errors.maps.keys():
        return None
    products, lengths = np.zeros(rows.targets.size), np.zeros(rows.targets.size)
    for key, matrix in errors.maps.items():
        products += (matrix * rows.maps[key]).sum(axis=1)
        lengths += (matrix * matrix).sum(axis=1)
    scales = products / lengths
    sizes = np.abs(scales) * np.sqrt(lengths)
    off = [
        abs(rows.maps[key] - sp.diags_array(scales) @ matrix).max(axis=1).toarray()
        for key, matrix in errors.maps.items()
    ]
    same = all((np.ravel(distance) <= _SAME * sizes).all() for distance in off)
    targets = np.abs(rows.targets - scales * errors.targets) <= _SAME * np.abs(scales) * np.abs(errors.targets).max()
    return scales if same and bool(targets.all()) else None
