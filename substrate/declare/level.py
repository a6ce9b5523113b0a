r"""Level 1 of a hierarchical machine: the LS-SVM substrate, as expressions.

.. math::

    f(x) = \sum_i a_i k(x_i, x) + b, \qquad y_i = f(x_i) + e_i, \qquad e = \alpha + c, \qquad 1^T a = 0

([Pelckmans2005]_ eq. (9)-(11)), with :math:`a = \alpha` in regression; in classification :math:`e = 1 - y \circ f` and
:math:`a = y \circ \alpha`. The additive regularization constants c are free: fixing them, or any convex term or
constraint on the expressions of this level, is left to the levels above. Where these mention f at further points, the
expansion may have terms there too (:mod:`substrate.declare.span`).

The expressions are built on place-holder variables. A machine replaces them by affine expressions in coordinates of its
choice, and writes their values back after solving, so that ``s.f(points).value`` is available as usual, also of points
that are first asked for after the solution.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import cvxpy as cp
import numpy as np

from substrate.arrays import Array, real_array, real_points
from substrate.basis import Basis
from substrate.declare.linear_operators import (
    Functional,
    Integral,
    KernelAction,
    LinearOperator,
    Observations,
    checked_targets,
    refuse_matrix,
    without_single_column,
)
from substrate.declare.outputs import Term
from substrate.declare.place_holders import PlaceHolder, Region, Standing
from substrate.errors import DataError, DeclarationError
from substrate.files import store_as
from substrate.kernels import Componentwise, Kernel, as_kernel
from substrate.kernels.derivatives import checked_column
from substrate.operators.basis_choice import chosen_basis
from substrate.operators.gram import Gram
from substrate.operators.sources import ArraySource

__all__ = [
    "Substrate",
    "basis_vectors",
]


class Substrate(Term):
    """An LS-SVM substrate: alpha, b, c, e and f as cvxpy expressions.

    Parameters
    ----------
    kernel
        A kernel of :mod:`substrate.kernels`, a name, or a callable; ``Componentwise`` gives the machine components.
    X, y
        Training points and targets; labels -1 and +1 for ``task="classification"``. With one column of y per output,
        f, e and alpha have these columns too: one coefficient vector and one bias each, on one kernel matrix. Without
        y, as for one class, a density or ranks, terms are written in ``s.f()``, and the certificate measures the
        accuracy in units of the spread of f.
    task
        ``"regression"`` or ``"classification"``.
    bias
        Whether there is an unpenalised b (and with it 1'a = 0). Substrates that are summands of one output share one
        bias: two would not be determined, so give all but one ``bias=False``. Substrates that are separate outputs have
        a bias each.
    basis
        For many rows: the expansion is on a few vectors instead of all training points, f(x) = sum_j a_j k(b_j, x) + b,
        and no N x N matrix is made. An array of points, a number of vectors, the numbers of rows, the name of a rule or
        a :class:`~substrate.basis.Basis`. The grammar is the same, but that ``alpha`` has one entry per vector, that
        these need not sum to zero, and that there is no ``c``. The certificate is of the machine on the basis.
    name
        What outputs and the rows of a certificate call it; a machine of several named substrates predicts each by
        its name, see :class:`~substrate.Machine`.
    observed
        What y was observed of f, where that is not its values at X: ``{0: 1}`` for derivatives of these orders by
        column, a :class:`~substrate.LinearOperator`, ``"integral"`` with boxes of shape (m, d, 2) or measures in the
        place of X, ``"average"`` with a list of arrays of points; or a list of kinds, with X and y then lists of the
        same length: ``Substrate(kernel, [X, Z], [y, slopes], observed=["value", {0: 1}])``. ``s.e`` has all errors in
        this order; the training points, ``s.X`` of ``s.f()``, are the points of the values or, if fewer than two values
        were observed, of all observations (of boxes, their middles).

    Examples
    --------
    >>> import cvxpy as cp
    >>> from substrate import Machine, Substrate
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> X, y = motorcycle()
    >>> s = Substrate(RBF(10.0), X, y)
    >>> machine = Machine(s, minimize=cp.sum(cp.huber(s.e, 10.0)) + 0.05 * s.squared_norm)
    >>> bool(machine.solve().certificate.holds)
    True
    """

    def __init__(
        self,
        kernel: Any,
        X: Any,
        y: Any = None,
        task: str = "regression",
        *,
        bias: bool = True,
        basis: Any = None,
        name: str | None = None,
        observed: Any = None,
    ) -> None:
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise DeclarationError(f"name must be text that is not empty, received {name!r}")
        self.name = name
        if task not in ("regression", "classification"):
            raise DeclarationError(f"task must be 'regression' or 'classification', received {task!r}")
        #: What was observed where that is not f at the rows of X.
        self.observed: Observations | None = None
        if observed is not None:
            if task != "regression":
                raise DeclarationError(f"observed= is for task='regression', received task={task!r}")
            self.observed = Observations.of(X, y, observed)
            X, y = self.observed.points, self.observed.values
        #: The names of the columns of a data frame, by which derivatives may ask for them.
        self.column_names: tuple[str, ...] = tuple(map(str, getattr(X, "columns", ())))
        if self.observed is not None:
            self.column_names = self.observed.column_names
        self.X = real_points(X)
        if self.X.shape[0] < 2:
            raise DataError(f"a substrate needs at least two points, received {self.X.shape[0]}")
        #: The targets; None for a machine that has none, as of a density or of ranks.
        self.y: Any = None if y is None else checked_targets(y, self.X.shape[0], task)
        if y is None and task == "classification":
            raise DeclarationError("task='classification' needs labels y; without targets leave task out")
        self.task = task
        self.bias = bool(bias)
        self.kernel: Kernel = as_kernel(kernel).resolved(self.X)
        #: The vectors of the expansion, where they are not the training points, and how they came about.
        self.basis: Any = None
        self.described = ""
        if basis is not None:
            targets = np.zeros(self.n) if self.y is None else self.y
            self.basis, self.described = basis_vectors(basis, self.kernel, self.X, targets)
        self.gram = Gram.of(self.kernel, self.X if self.basis is None else self.basis)
        self._latest: Callable[[PlaceHolder], Any] | None = None
        self._holders: list[PlaceHolder] = []
        self._errors: Any = None
        if self.observed is not None:
            _ = self.e  # refuses what the kernel has no derivatives or integrals for

    def __repr__(self) -> str:
        name = "" if self.name is None else f" {self.name!r}"
        basis = "" if self.basis is None else f", {self.size} vectors"
        outputs = f", {self.columns[0]} outputs" if self.columns else ""
        return f"<Substrate{name}: {self.kernel!r}, {self.task}, {self.n} rows{basis}{outputs}>"

    @property
    def n(self) -> int:
        """Number of training points."""
        return int(self.X.shape[0])

    @property
    def size(self) -> int:
        """Number of coefficients: one per training point, or per vector of the basis."""
        return self.n if self.basis is None else int(self.basis.shape[0])

    @property
    def columns(self) -> tuple[int, ...]:
        """The number of columns of y as a shape: () for one target per point, (m,) for m columns."""
        targets = self.y if self.observed is None else self.observed.targets
        return () if targets is None else tuple(targets.shape[1:])

    @property
    def signs(self) -> Array:
        """The factors from alpha to the coefficients a: ones, or the labels; ones on a basis, which has no labels."""
        labelled = self.task == "classification" and self.basis is None
        return self.y if labelled else np.ones((self.size, *self.columns))

    @property
    def components(self) -> tuple[Kernel, ...]:
        """The kernels whose sum is the kernel; one, unless it is componentwise."""
        if isinstance(self.kernel, Componentwise):
            return self.kernel.components(self.X.shape[1])
        return (self.kernel,)

    @property
    def alpha(self) -> Any:
        """The support values, as a variable; a machine that mentions them is solved in them, uncut.

        One per training point; with a basis, the coefficients of its vectors.
        """
        return self._holder("alpha", (self.size, *self.columns))

    @property
    def b(self) -> Any:
        """The bias, one per column of y."""
        return self._holder("b", self.columns)

    @property
    def c(self) -> Any:
        """The additive regularization constants, c = e - alpha."""
        self.refuse_constants()
        return self.e - self.alpha

    def refuse_constants(self) -> None:
        """Raise if the machine has no constants c."""
        if self.basis is not None:
            raise DeclarationError(
                f"c = e - alpha needs one alpha per row; the basis has {self.size} for {self.n} rows. Write terms in "
                "s.e and s.alpha, or leave the basis out"
            )

    @property
    def e(self) -> Any:
        """The errors: y - f, or 1 - y∘f in classification; for observations, y less the observations of f."""
        if self.observed is not None:
            if self._errors is None:
                # one expression that a sum keeps unchanged, so that the losses of the errors can be read
                self._errors = -(self.observed.read(self) - cp.Constant(self.observed.targets, name="y"))
            return self._errors
        if self.y is None:
            raise DeclarationError("the substrate has no targets, so f has no errors: write terms in s.f(), or give y")
        return self.errors(None, self.y)

    def errors_of(self, fitted: Array) -> Array:
        """Return the errors of fitted values as numbers; NaN without targets."""
        if self.y is None:
            return np.full(fitted.shape, np.nan)
        return np.asarray(self.y - fitted if self.task == "regression" else 1.0 - self.y * fitted)

    def errors(self, points: Any, targets: Any) -> Any:
        """Return the errors at further points with known targets, as the validation equalities (11) define them.

        :equation [Pelckmans2005]_ (11): the validation equalities
        """
        values = self.f(points)
        targets_given = real_array(targets, "targets", ndim=(1, 2))
        targets_given = targets_given if self.columns else without_single_column(targets_given, "targets")
        target_values = real_array(targets_given, "targets", ndim=1 + len(self.columns))
        if target_values.shape != values.shape:
            expected, received = (
                (values.size, target_values.size) if target_values.ndim == 1 else (values.shape, target_values.shape)
            )
            raise DataError(f"targets must have one entry per point: expected {expected}, received {received}")
        y = cp.Constant(target_values, name="y")  # named, so that a message can print the term
        return y - values if self.task == "regression" else 1.0 - cp.multiply(y, values)

    def f(self, points: Any = None) -> Any:
        """Return the machine's values at points (the training points if none are given), affine in the variables.

        With :class:`~substrate.Everywhere` in place of points, the function on a box, as in ``s.f(everywhere) >= 0``.
        """
        if isinstance(points, Region):
            return points.read(self, LinearOperator.value())
        return self._values("f", points, 0)

    def component(self, part: int, points: Any = None) -> Any:
        """Return the values of one component, without bias."""
        count = len(self.components)
        if not -count <= part < count:
            raise DeclarationError(f"there is no component {part}; the kernel has {count}, numbered from 0")
        if isinstance(points, Region):
            return points.read(self, LinearOperator.value(), part % count)
        return self._values("component", points, part % count)

    def gradient(self, points: Any, column: int) -> Any:
        """Return the derivative of f in input ``column`` at points (None: the training points), for kernels that have
        one.

        ``s.gradient(grid, 0) >= 0`` makes f rise on a grid, and ``cp.diff(s.gradient(grid, 0)) >= 0`` makes it convex
        there, for a grid that rises in its only column.
        """
        return self.derivative(points, {column: 1})

    def derivative(self, points: Any, orders: Any) -> Any:
        """Return a derivative of f at points (None: the training points), its order by column: ``{0: 2}`` or ``{0: 1,
        1: 1}``.

        Columns are numbers, or the names of the columns of a data frame X. ``s.derivative(grid, {0: 2}) >= 0`` makes f
        convex in its first input on a grid. The kernel must have the derivative: Matern(nu) has the orders below nu.
        """
        return self.apply(LinearOperator.derivative(orders), points)

    def laplacian(self, points: Any) -> Any:
        """Return the sum of the second derivatives of f in all inputs, at points."""
        first, *others = (LinearOperator.derivative({c: 2}) for c in range(self.X.shape[1]))
        return self.apply(sum(others, first), points)

    def apply(self, operator: LinearOperator | KernelAction, points: Any = None) -> Any:
        """Return what a linear operator makes of f at points (None: the training points), affine in the variables.

        ``s.apply(heat, grid) == 0`` asks for a differential equation on a grid, see :class:`~substrate.LinearOperator`;
        other operators are defined by their action on the kernel, :class:`~substrate.KernelAction`. Values at points
        join the expansion as values of f do.
        """
        resolved = self.resolve_operator(operator)
        if isinstance(resolved, KernelAction):
            if isinstance(points, Region):
                raise DeclarationError(
                    "a shape that holds everywhere needs a bound between points, which an operator given by its action "
                    "on the kernel has not; write it as a LinearOperator, or give points"
                )
            rows = real_array(self.X if points is None else points, "points", ndim=2)
            values = self._holder("operator", (rows.shape[0], *self.columns), points=rows, part=resolved)
            return self._add_bias(values, resolved.apply_to_constant(rows))
        if isinstance(points, Region):
            return points.read(self, resolved)
        values = self._values("operator", points, resolved)
        return self._add_bias(values, resolved.apply_to_constant(self.X if points is None else real_points(points)))

    def hessian(self, everywhere: Region, columns: Any = None) -> Any:
        """Return the matrix of second derivatives of f in some columns (None: all), everywhere in a box.

        ``s.hessian(everywhere) >= 0`` makes f convex in them jointly: no eigenvalue is below zero anywhere. Up to three
        columns, unless the kernel is additive.
        """
        if not isinstance(everywhere, Region):
            raise DeclarationError(
                f"the Hessian is read everywhere in a box, as s.hessian(Everywhere(box)); received {everywhere!r}. At "
                "points write its entries, s.derivative(points, {0: 1, 1: 1})"
            )
        selection = range(self.X.shape[1]) if columns is None else columns
        numbers = tuple(dict.fromkeys(self.column_number(c) for c in selection))
        for c in numbers:
            self.kernel.refuse_orders({c: 2})
        return everywhere.read(self, LinearOperator.value(), hessian=numbers)

    def integral(self, boxes: Any) -> Any:
        """Return the integral of f over a box, its lower and upper end for each column, or over each of several boxes.

        ``s.integral([[0.0, 1.0], [0.0, 2.0]])`` is that over a rectangle, and ``s.integral(measure)`` that against a
        :class:`~substrate.Measure`, or against each of several: weights at points, lengths, products and sums of them.
        Closed forms are known for RBF, Laplacian, polynomials, Matern in one column, and
        sums and products on different columns of these; other kernels are refused, and a measure on the points of a
        quadrature rule is a sum in the place of the integral.
        """
        functional, rows = self.resolve_integral(boxes)
        values = self._holder("operator", (rows.shape[0], *self.columns), points=rows, part=functional)
        return self._add_bias(values, functional.apply_to_constant(rows))

    def resolve_integral(self, boxes: Any) -> tuple[Functional, Array]:
        """Return what reads the integrals over boxes or against measures, and its rows."""
        refuse_matrix(self.kernel)
        n_features = self.X.shape[1]
        integral = Integral.of(boxes, n_features)
        if not all(measure.is_discrete for measure in integral.measures):  # refused where the kernel has no integrals
            self.kernel.integral(np.zeros((1, n_features)), np.tile([0.0, 1.0], (n_features, 1)))
        return integral, np.arange(len(integral.measures), dtype=np.float64)[:, None]

    def _add_bias(self, values: Any, constant: Array) -> Any:
        """Add what an operator makes of the bias, given what it makes of one."""
        if not self.bias or not constant.any():
            return values
        if self.columns:
            return values + constant[:, None] @ cp.reshape(self.b, (1, *self.columns), order="F")
        return values + constant * self.b

    def average(self, points: Any, groups: Any = None) -> Any:
        """Return the mean of f over points, or over each group of them: one entry per group, in the order of their
        labels.
        """
        values = self.f(points)
        if groups is None:
            return cp.sum(values, axis=0) / values.shape[0]
        labels = np.asarray(groups)
        if labels.shape != values.shape[:1]:
            raise DataError(
                f"groups must have one label per point: expected {values.shape[0]}, received {labels.shape}"
            )
        names, members = np.unique(labels, return_inverse=True)
        weights = np.equal.outer(np.arange(names.size), members).astype(np.float64)
        return (weights / weights.sum(axis=1, keepdims=True)) @ values

    def resolve_operator(self, operator: Any) -> LinearOperator | KernelAction:
        """Return an operator with columns by number, refused where the kernel lacks one of its derivatives."""
        if isinstance(operator, KernelAction):
            refuse_matrix(self.kernel)
            return operator
        if not isinstance(operator, LinearOperator):
            raise DeclarationError(
                f"expected a LinearOperator, as LinearOperator.derivative({{0: 2}}), received {operator!r}"
            )
        resolved = operator.resolve(self._column_number, self.X.shape[1])
        resolved.refuse(self.kernel)
        refuse_matrix(self.kernel)
        return resolved

    def column_number(self, column: Any) -> int:
        """Return the number of a column that is given by number or, where X is a data frame, by name."""
        return checked_column(self._column_number(column), self.X.shape[1])

    def _column_number(self, column: Any) -> Any:
        """Return the number of a named column, and a number unchanged."""
        if not isinstance(column, str):
            return column
        if column not in self.column_names:
            hint = (
                f"its names are {', '.join(map(repr, self.column_names))}" if self.column_names else "it has no names"
            )
            raise DeclarationError(
                f"X has no column {column!r}: {hint}; a column is also an integer from 0 to {self.X.shape[1] - 1}"
            )
        return self.column_names.index(column)

    @property
    def maximal_variation(self) -> Any:
        """The vector of ``max_i |f^l(x_i)|`` over the training points, one per component ([Pelckmans2005]_ eq. (13)).

        Over all columns of y, where there are several, so that they share the inputs that are found to matter.

        :equation [Pelckmans2005]_ (13): the maximal variation of a component
        """
        components = [self.component(number) for number in range(len(self.components))]
        return cp.hstack([cp.max(cp.abs(number)) if self.columns else cp.norm_inf(number) for number in components])

    @property
    def squared_norm(self) -> Any:
        """w'w = a'K a, in factor form; the sum over the columns of y."""
        return self._holder("squared_norm", (), nonneg=True)

    @property
    def norm(self) -> Any:
        r"""The norm of w, :math:`\sqrt{a^T K a}`, or the Frobenius norm if y has several columns.

        The sum of norms over several substrates, :math:`\sum_k \|w_k\|`, is the penalty of multiple kernel learning
        [Bach2004]_: it sets whole functions to zero.
        """
        return self._holder("norm", (), nonneg=True)

    def kernel_rows(self, points: Any, part: int | None = None) -> Array:
        """Return kernel values of points (None: training) against the expansion's points, of one component if asked."""
        kernel = self.kernel if part is None else self.components[part]
        centres, at = self.X if self.basis is None else self.basis, self.X if points is None else points
        if at is centres:
            return self.gram.matrix if part is None else np.asarray(kernel(centres))
        return np.asarray(kernel(at, centres))

    def holders(self) -> tuple[PlaceHolder, ...]:
        """Return all place-holders created so far."""
        return tuple(self._holders)

    def remember(self, values: Callable[[PlaceHolder], Any]) -> None:
        """Take the values of all place-holders, present and later ones, from a solution."""
        self._latest = values
        for holder in self._holders:
            holder.leaf.assign(values(holder))

    def _values(self, role: str, points: Any, part: Any) -> Any:
        if points is not None:
            points = real_points(points, "points")
            if points.shape[1] != self.X.shape[1]:
                raise DataError(f"points have {points.shape[1]} columns, the training points {self.X.shape[1]}")
            if points.shape == self.X.shape and isinstance(points, np.ndarray) and np.array_equal(points, self.X):
                points = None
        n = self.n if points is None else points.shape[0]
        return self._holder(role, (n, *self.columns), points=points, part=part)

    def _holder(self, role: str, shape: Any, *, points: Any = None, part: Any = 0, nonneg: bool = False) -> Any:
        for holder in self._holders:
            if holder.role == role and holder.part == part and points is None and holder.points is None:
                return holder.leaf
        holder = PlaceHolder(Standing(shape, name=role, nonneg=nonneg), role, points, part)
        self._holders.append(holder)
        if self._latest is not None:
            holder.leaf.assign(self._latest(holder))
        return holder.leaf


def basis_vectors(basis: Any, kernel: Kernel, X: Any, y: Array) -> tuple[Any, str]:
    """Return the points that a basis stands for, and how they were chosen; the rules are the same as for the
    estimators.
    """
    if kernel.pairwise:
        raise DeclarationError("a precomputed matrix has no points that could be a basis; pass X and the kernel itself")
    choice = Basis.of(np.asarray(basis) if isinstance(basis, (list, tuple)) else basis)
    if choice.rule is None:
        choice = choice.with_params(rule="feature_vectors")
    if isinstance(choice.rule, str) and choice.rule == "pruned":
        raise DeclarationError(
            "basis.rule='pruned' ranks rows by a least-squares fit at one gamma, which a machine need not have; take "
            "another rule, or pass the points of a fitted LSSVMRegressor(basis=...)"
        )
    # only the rule above has a ridge
    chosen = chosen_basis(choice, kernel, ArraySource(X, y.reshape(y.shape[0], -1)), 1.0)
    return chosen.points, chosen.description


@dataclass(frozen=True, slots=True)
class StoredSubstrate:
    """The declaration of a substrate; ``observed`` has kinds and places if f itself was not observed at X."""

    kernel: Kernel
    X: Any
    y: Array | None
    observed: tuple[tuple[Any, Any], ...] | None
    task: str
    bias: bool
    basis: Any
    name: str | None
    column_names: tuple[str, ...]

    @classmethod
    def of(cls, s: Substrate) -> Self:
        """Return the declaration of a substrate."""
        observed = None if s.observed is None else tuple((block.kind, block.at) for block in s.observed.blocks)
        X, y = (s.X, s.y) if s.observed is None else (None, s.observed.targets)
        return cls(s.kernel, X, y, observed, s.task, s.bias, s.basis, s.name, s.column_names)

    def restore(self) -> Substrate:
        """Declare the substrate again."""
        how: dict[str, Any] = {"bias": self.bias, "basis": self.basis, "name": self.name}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the declaration has given them
            if self.observed is None:
                s = Substrate(self.kernel, self.X, self.y, self.task, **how)
            else:
                kinds, places = ([pair[side] for pair in self.observed] for side in (0, 1))
                s = Substrate(self.kernel, places, self.y, self.task, observed=kinds, **how)
        s.column_names = self.column_names
        return s


store_as(Substrate, StoredSubstrate)
