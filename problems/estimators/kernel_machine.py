r"""Kernel machines with any loss of single rows, a bias, and columns that are not penalised.

.. math:: \min_{w, b, \beta} \tfrac12 w^T w + \gamma \sum_i v_i\, \ell(y_i, f(x_i)), \qquad
          f(x) = w^T \varphi(x) + \beta^T z + b

The losses are values of :mod:`substrate.losses`. :class:`~substrate.losses.Huber` gives the machine of
:mod:`problems.huber_ls_svm`, and :class:`~substrate.losses.SquaredHinge` the machine of
:mod:`problems.squared_hinge_svm`; quantiles, expectiles, tubes, the hinge and the logistic loss are solved, bounded and
proved by the same code.
"""

import math
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from problems.estimators.reduced_fit import FitData, basis_choice, prepare
from problems.estimators.shared.base import Added, Facts, StoredFit, WeightedRows, certify_stored
from problems.estimators.shared.checks import definite_gram
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.coded import Coding
from problems.estimators.shared.left_out import LeftOutOutputs
from problems.estimators.shared.linear_part import PartlyLinear
from problems.estimators.shared.regressor import Regressor
from substrate import losses as loss_values
from substrate.arrays import Array, check_memory, positive
from substrate.balls import Balls
from substrate.bounds.proof import Proof, prove_rows
from substrate.bounds.rows import (
    FORMULA,
    BasisPoint,
    EnclosedKernel,
    ExpansionPoint,
    Point,
    RowMachine,
    bound_rows,
    optimality_rows,
)
from substrate.certificate import (
    NO_BOUND,
    Certificate,
    Row,
    Tolerance,
    on_basis,
    unpolished_tolerance,
    warn_unless_holds,
)
from substrate.errors import DataError, DeclarationError
from substrate.fits.row_newton import FeatureRows, GramRows, RowPoint, solve_rows
from substrate.ingredients import zero_sum_row
from substrate.kernels import Kernel
from substrate.left_out.row_left_out import leave_rows_out
from substrate.losses import Huber, Loss, RowLoss, SquaredHinge
from substrate.numbers import Double
from substrate.operators.border import Border
from substrate.operators.features import basis_features, independent_vectors
from substrate.operators.gram import Gram

__all__ = ["KernelClassifier", "KernelRegressor"]

_UNKNOWN = (
    "rounding",
    "double precision does not bound this machine to the tolerance; scale the columns of X, or take a smaller gamma, "
    "or call prove(X, y)",
)
#: The losses that are taken unless others are given.
_HUBER, _SQUARED, _SQUARED_HINGE = Huber(), loss_values.Squared(), SquaredHinge()
#: Smallest eigenvalues by which a matrix is lifted that is not positive semi-definite.
_LIFT = 1.0 + 1e-6
_INDEFINITE = "the kernel matrix is not positive semi-definite, so that the objective has no minimum"
#: Bits of a proof.
_BITS = 160
#: Accepted difference of a left-out value from its refit, in addition to rounding.
_CHECKED = 1e-6


@dataclass(frozen=True)
class RowExpansion:
    """An expansion over all rows of a machine; ``gram`` is their kernel matrix."""

    kernel: Kernel
    points: Any
    gram: Gram

    @property
    def refusal(self) -> str:
        """Return the reason for no bound: an indefinite matrix; empty otherwise."""
        return "" if math.isfinite(self.gram.negative) else _INDEFINITE

    @property
    def largest(self) -> float:
        """Return the largest entry of the diagonal."""
        return float(np.abs(self.gram.diagonal).max())

    def space(self, Z: Array) -> GramRows:
        """Return the kernel matrix, lifted by its smallest eigenvalue where it is not positive semi-definite."""
        K = np.asarray(self.gram.matrix)
        if self.refusal:
            K = K - _LIFT * float(np.linalg.eigvalsh(K)[0]) * np.eye(self.gram.n)
        return GramRows(K, 1.0, Z)

    def solution(self, losses: RowLoss, point: RowPoint) -> tuple[Array, Array]:
        """Return the coefficients, which are minus the slopes, and the slopes."""
        g = losses.limit_slopes(-point.u)
        return -g, g

    def enclose(self, coefficients: Array) -> Point:
        """Return K a with kernel values from differences."""
        return ExpansionPoint(EnclosedKernel(self.gram.enclose(self.points)), coefficients)

    def enclose_in_balls(self, coefficients: Array) -> Point:
        """Return K a in balls."""
        from substrate.bounds.proof import ball_matrix

        return ExpansionPoint(EnclosedKernel(ball_matrix(self.kernel, self.points)), coefficients)

    def facts(self) -> Facts:
        """Return facts about the matrix, and the diagonal added to it for the bound."""
        lifted = self.gram.negative if math.isfinite(self.gram.negative) else 0.0
        return (*self.gram.record(), *((("lift", f"{lifted:.1e} added to the diagonal of K"),) if lifted else ()))


@dataclass(frozen=True)
class BasisExpansion:
    """An expansion over the vectors of a basis; of a given matrix the rows are ``points``, and the vectors numbers.

    ``transform`` makes features of kernel values, and ``numbers`` are the numbers of the vectors among the rows given.
    """

    kernel: Kernel
    points: Any
    vectors: Any
    transform: Array
    numbers: Any = None

    @property
    def refusal(self) -> str:
        """Return an empty reason: vectors that are numerically distinct have a positive definite matrix."""
        return ""

    @classmethod
    def of(cls, kernel: Kernel, points: Any, vectors: Any, coefficients: Array) -> Self:
        """Return the expansion over the vectors that are numerically distinct or have a coefficient."""
        K = Gram.of(kernel, points).block(vectors, vectors) if kernel.pairwise else kernel(vectors)
        kept = np.union1d(independent_vectors(K), np.flatnonzero(coefficients.any(axis=1)))
        return cls(kernel, points, vectors, np.asarray(basis_features(K, kept).transform))

    @cached_property
    def _enclosed(self) -> tuple[Double, Double]:
        """Return the kernel values of the rows with the vectors, and of the vectors with each other."""
        if self.kernel.pairwise:
            rows = Gram.of(self.kernel, self.points).matrix[:, self.vectors]
            return Double(rows), Double(rows[self.vectors])
        return self.kernel.enclose(self.points, self.vectors), self.kernel.enclose(self.vectors, self.vectors)

    @property
    def largest(self) -> float:
        """Return the largest value of a vector with itself."""
        return float(np.abs(np.diagonal(self._enclosed[1].midpoint)).max())

    def space(self, Z: Array) -> FeatureRows:
        """Return the features of the rows."""
        return FeatureRows(self._enclosed[0].midpoint @ self.transform, 1.0, Z)

    def solution(self, losses: RowLoss, point: RowPoint) -> tuple[Array, Array]:
        """Return the slopes, and the coefficients of the vectors, computed from the coefficients of the features."""
        return np.asarray(self.transform @ point.u), losses.limit_slopes(point.g)

    def enclose(self, coefficients: Array) -> Point:
        """Return the function with kernel values from differences."""
        return BasisPoint(*self._enclosed, self.transform, coefficients)

    def enclose_in_balls(self, coefficients: Array) -> Point:
        """Return the function in balls."""
        from substrate.bounds.proof import ball_matrix

        if self.kernel.pairwise:
            rows, basis = (Balls.exact(values.midpoint) for values in self._enclosed)
        else:
            rows, basis = (ball_matrix(self.kernel, each, self.vectors) for each in (self.points, self.vectors))
        return BasisPoint(rows, basis, self.transform, coefficients)

    def facts(self) -> Facts:
        """Return facts about the vectors of the machine."""
        n, rank = self.transform.shape
        about = (("accuracy", on_basis(rank, n).strip()),) if rank < n else ()
        return ("kernel", repr(self.kernel)), *about


#: The functions of a machine: expansions over its rows, or over the vectors of a basis.
Expansion = RowExpansion | BasisExpansion


class _Fit(NamedTuple):
    """One machine: its losses, functions and columns that are not penalised, and the solution."""

    losses: RowLoss
    border: Border
    space: GramRows | FeatureRows
    point: RowPoint
    coefficients: Array
    g: Array
    bias: float
    slopes: Array

    def on_matrix(self) -> tuple[GramRows, RowPoint]:
        """Return the same machine on the kernel matrix of its rows."""
        if isinstance(self.space, GramRows):
            return self.space, replace(self.point, u=self.coefficients)
        features, n = self.space.features, self.g.size
        check_memory(24.0 * n * n, f"the {n} x {n} matrix of the rows", "leave out rows of fewer in all.")
        return GramRows(features @ features.T, 1.0, self.space.Z), replace(self.point, u=-self.g)


@dataclass(frozen=True, slots=True)
class StoredRows:
    """A machine as a model stores it, on its rows of positive weight; ``g`` are slopes near the optimal slopes."""

    expansion: Expansion
    y: Array
    weights: Array
    machine: RowMachine
    coefficients: Array
    g: Array
    tolerance: float

    @property
    def _share(self) -> float:
        """Return the tolerance, or its root for losses with kinks, whose gap is proportional to an error, not its
        square."""
        return unpolished_tolerance(self.tolerance) if self.machine.losses.has_kinks else self.tolerance

    def certify(self) -> Added:
        """Bound the answer, and check the conditions of optimality."""
        facts = self.expansion.facts()
        if self.expansion.refusal:
            return (), (*facts, (NO_BOUND, self.expansion.refusal))
        tolerance = Tolerance.of_page(self.y, self.weights, self._share)
        point = self.expansion.enclose(self.coefficients)
        bound = bound_rows(self.machine, point, self.g, tolerance.largest_radius)
        row = tolerance.row(bound.radius, FORMULA, f"{bound.about}{self._which(facts)}")
        rows = optimality_rows(self.machine, -self.g, self.machine.fitted, bound.gap, self.y, _CHECKED)
        unit = float(np.abs(self.y).max()) / (self.expansion.largest or 1.0)
        balance = (zero_sum_row(self.g, _CHECKED, np.array([unit])), *self.machine.border.row(self.g, _CHECKED))
        return (row, *rows, *balance), (*facts, *(() if row.passes else (_UNKNOWN,)))

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        if self.expansion.refusal:
            return Proof.of(math.inf, Tolerance.of_page(self.y, self.weights, self._share), 0, self.expansion.refusal)
        enclose = partial(self.expansion.enclose_in_balls, self.coefficients)
        proof = prove_rows(self.machine, enclose, self.g, self.y, self.weights, self._share)
        return replace(proof, about=f"{proof.about}{self._which(self.expansion.facts())}")

    @staticmethod
    def _which(facts: Facts) -> str:
        """Return the words for the machine that is bounded, where it is not the one on all vectors and values."""
        return "".join({"lift": f" with {text}", "accuracy": f" {text}"}.get(name, "") for name, text in facts)


def _used_rows(a: Array) -> NDArray[np.intp]:
    """Return the rows that have a coefficient in some machine; the first where none has."""
    (used,) = np.nonzero(a.any(axis=1))
    return used if used.size else np.zeros(1, dtype=np.intp)


def _loss_of(model: Any) -> Loss:
    """Return the loss of a model, refused unless it is for its task."""
    loss = (_SQUARED_HINGE if model._labels else _HUBER) if model.loss is None else model.loss
    if not isinstance(loss, Loss):
        example = "SquaredHinge()" if model._labels else "Pinball(0.9)"
        raise DeclarationError(f"loss must be a value of substrate.losses, such as {example}; received {loss!r}")
    if loss.is_margin != model._labels:
        other = "KernelClassifier" if loss.is_margin else "KernelRegressor"
        raise DeclarationError(f"{loss!r} is a loss of {'labels' if loss.is_margin else 'numbers'}; use {other}")
    return loss


@dataclass(eq=False, repr=False)
class KernelMachine(PartlyLinear):
    """A base of kernel machines of numbers or of classes: their parameters, and the fit.

    :class:`KernelRegressor` documents them. Without a basis the rows that have a coefficient are kept, otherwise the
    basis; the losses count all rows.
    """

    gamma: float = 1.0
    _: KW_ONLY
    loss: Any = None
    linear_columns: Any = ()
    basis: Any = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y, or labels; a row of weight 2 counts as two rows, one of weight 0 not at all."""
        self._begin_fit()
        gamma, loss = positive(self.gamma, "gamma"), _loss_of(self)
        rows = self._read_rows(X, y, sample_weight)
        coded = self._encode(rows.y)
        Y = coded.codes(rows.y)
        expansion, chosen = self._expand(self._resolved_kernel(rows.X), rows, Y, coded)

        least_squares = partial(self._fit_machines, expansion, Y[:, :1], rows.weights, _SQUARED)
        self.loss_ = loss.resolve(lambda: np.asarray(Y[:, 0] - least_squares()[0].point.f), rows.weights)
        fits = self._fit_machines(expansion, Y, rows.weights, self.loss_)
        a, g = (np.column_stack(columns) for columns in ([fit.coefficients for fit in fits], [fit.g for fit in fits]))
        self._keep_machines(rows, expansion, a, fits, coded, Y)
        facts = (
            *chosen,
            ("gamma", f"{gamma:g}"),
            ("loss", repr(self.loss_)),
            ("support", f"{self.n_support_} of {Y.shape[0]} rows"),
            ("solver", f"Newton's method, {sum(fit.point.steps for fit in fits)} systems"),
        )
        checked = certify_stored(self._title, StoredFit(self._recall_machines(expansion, Y, rows.weights, a, g)))
        self.certificate_ = Certificate(self._title, checked.rows, (*checked.record, *facts))
        warn_unless_holds(self.certificate_)
        return self

    def _expand(self, kernel: Kernel, rows: WeightedRows, Y: Array, coded: Coding) -> tuple[Any, Facts]:
        """Return the functions of a fit to rows and targets, and facts about how they were chosen."""
        if self.basis is None:
            return RowExpansion(kernel, rows.X, definite_gram(kernel, rows.X)), ()
        data = FitData.of_rows(rows, Y, coded)
        prepared = prepare(kernel, data, basis_choice(self.basis), 1.0 / positive(self.gamma, "gamma"))
        basis, transform = prepared.basis, np.asarray(prepared.features.transform)
        vectors = basis.rows if kernel.pairwise else basis.points
        numbers = np.arange(basis.size) if basis.rows is None else data.given_numbers(basis.rows)
        return BasisExpansion(kernel, rows.X, vectors, transform, numbers), prepared.facts

    def _fit_machines(self, expansion: Expansion, Y: Array, weights: Array, loss: Loss) -> list[_Fit]:
        """Solve one machine for every column of the targets."""
        border, fits = self._border(expansion.points, weights), []
        space = expansion.space(border.matrix(Y))
        for y in np.ascontiguousarray(Y.T):
            losses = loss.of_rows(y, positive(self.gamma, "gamma") * weights)
            point = solve_rows(space, losses, float(np.ptp(y)) or float(np.abs(y).max()) or 1.0)
            bias, slopes = border.split(point.c[:, None])
            solution = expansion.solution(losses, point)
            fits.append(_Fit(losses, border, space, point, *solution, float(bias[0]), slopes))
        return fits

    def _keep_machines(
        self, rows: WeightedRows, expansion: Any, a: Array, fits: list[_Fit], coded: Any, Y: Array
    ) -> None:
        """Keep what predicts: the rows that have a coefficient, or the basis, the bias and the linear part."""
        kernel, border = expansion.kernel, fits[0].border
        used: Any = slice(None)
        if self.basis is None:
            used = _used_rows(a)
            points, numbers = rows.X if kernel.pairwise else rows.X[used], rows.numbers[used]
        else:
            points, numbers = expansion.vectors, expansion.numbers
        slopes = np.column_stack([fit.slopes for fit in fits]) if border.slopes else None
        bias = self._keep_linear(slopes, border.center, np.array([fit.bias for fit in fits]), len(fits) == 1, rows.X)
        self.n_support_ = int(a[used].shape[0])
        self._keep_classes(coded)
        self._keep_outputs(points, numbers, kernel, a[used], bias)

    def _recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return all machines on the data of the fit; on a basis they are solved again for the slopes of the losses."""
        expansion, Y, weights, a = self._recall_data(X, y, sample_weight)
        g = -a
        if self.basis is not None:
            g = np.column_stack([fit.g for fit in self._fit_machines(expansion, Y, weights, self.loss_)])
        return StoredFit(self._recall_machines(expansion, Y, weights, a, g))

    def _recall_data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Array, Array]:
        """Return the functions on rows of positive weight, targets, weights, and the coefficients of all machines."""
        rows = self._read_rows(X, y, sample_weight, again=True)
        Y, a, kernel = self._codes_again(rows.y), self.support_values_, self.kernel_
        a = a[:, None] if a.ndim == 1 else a
        if self.basis is not None:
            vectors = rows.places(self.support_) if kernel.pairwise else self.support_vectors_
            return BasisExpansion.of(kernel, rows.X, vectors, a), Y, rows.weights, a
        of_rows = np.zeros((rows.numbers.size, a.shape[1]))
        of_rows[rows.places(self.support_)] = a
        return RowExpansion(kernel, rows.X, definite_gram(kernel, rows.X)), Y, rows.weights, of_rows

    def _recall_machines(self, expansion: Expansion, Y: Array, weights: Array, a: Array, g: Array) -> list[StoredRows]:
        """Return every machine on its rows, with the values that predict returns there."""
        border, slopes = self._border(expansion.points, weights), self._linear_slopes()
        gamma, machines = positive(self.gamma, "gamma"), []
        fitted, biases = np.reshape(self._values_at(expansion, a), Y.shape), np.atleast_1d(self._central_bias())
        for k, y in enumerate(np.ascontiguousarray(Y.T)):
            machine = RowMachine(
                losses=self.loss_.of_rows(y, gamma * weights),
                lam=1.0,
                border=border,
                weights=weights,
                bias=float(biases[k]),
                fitted=fitted[:, k],
                slopes=None if slopes is None else slopes[:, k],
            )
            machines.append(StoredRows(expansion, y, weights, machine, a[:, k], g[:, k], self._tolerance()))
        return machines

    def _values_at(self, expansion: Any, a: Array) -> Array:
        """Return the values at the rows of the fit, as predict computes them."""
        X = expansion.points
        if not self.kernel_.pairwise:
            return self._evaluate(X)
        places = _used_rows(a) if self.basis is None else expansion.vectors
        return self.kernel_.expansion_values(None, self.support_values_, self._unpenalised(X), X, places)

    def _leave_rows_out(self, X: Any, y: Any, sample_weight: Any) -> LeftOutOutputs:
        """Leave every row out of every machine, in closed form where no other row changes the piece of its loss."""
        if X is None or y is None:
            raise DataError(
                f"{type(self).__name__} keeps the rows that have a coefficient alone, or its basis; give the training "
                "rows again, leave_one_out(X, y), and their sample_weight if there was one"
            )
        expansion, Y, weights, a = self._recall_data(X, y, sample_weight)
        fitted = np.reshape(self._values_at(expansion, a), Y.shape)
        residuals, checks, again = np.empty(Y.shape), [], 0
        for k, fit in enumerate(self._fit_machines(expansion, Y, weights, self.loss_)):
            spread = float(np.ptp(Y[:, k])) or 1.0
            space, point = fit.on_matrix()
            left = leave_rows_out(space, fit.losses, point, spread)
            residuals[:, k], again = Y[:, k] - left.values, again + left.fitted_again.size
            checks.append(
                Row(
                    name=f"refit without row {left.row}",
                    value=left.difference,
                    scale=spread,
                    tolerance=_CHECKED,
                    formula="f^(-i)(x_i) as stated - by a fit",
                )
            )
        facts = (
            ("closed form", f"for {Y.size - again} rows"),
            ("fitted again", f"for {again} rows, without which the pieces of the others do not settle"),
        )
        unknown, worst = np.full(Y.shape[1], np.nan), max(checks, key=lambda row: row.relative)
        basis = "" if self.basis is None else "the basis, "
        return LeftOutOutputs(
            X=expansion.points,
            targets=Y,
            errors=Y - fitted,
            residuals=residuals,
            weights=weights,
            degrees_of_freedom=unknown,
            gcv=unknown,
            conditional=f"{basis}kernel, gamma, loss, weights and preparation of the columns",
            rows=(worst,),
            facts=facts,
        )


@dataclass(eq=False, repr=False)
class KernelRegressor(KernelMachine, Regressor):
    """Kernel regression with any loss of the errors, and a bias that is not penalised.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    gamma : float, default=1.0
        Weight of the losses against half of the squared norm.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds; for losses with
        kinks (pinball, tubes) its root.
    loss : Loss, default=None
        None is ``Huber()``. ``Huber(delta)``, whose delta is by default 1.345 robust deviations of the least-squares
        errors; ``Pinball(0.9)`` for a quantile, ``Expectile(0.9)``, ``EpsilonInsensitive(0.1)`` for a tube,
        ``Squared()``.
    linear_columns : list of int or str, default=()
        Columns of X whose effect is linear and not penalised, by number or by name; the kernel sees the others.
    basis : Basis, int, str, array or None, default=None
        As for :class:`~problems.LSSVMRegressor`: a few points span the machine and the losses count all rows, which are
        read into memory. Time is linear in their number.

    Attributes
    ----------
    loss_ : Loss
        The loss with numbers for what depends on the data.
    support_values_ : array of shape (n_support,)
        The coefficients of the expansion: minus the slopes of the losses, or the coefficients of the vectors of a
        basis.
    support_ : array of shape (n_support,)
        The rows that have a coefficient, or the rows of the basis; 0, 1, ... for a basis of given points.
    coef_, linear_columns_, linear_center_, linear_bias_
        The linear part, as for :class:`~problems.LSSVMRegressor`.
    bias_, n_support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`.

    Examples
    --------
    >>> from problems import KernelRegressor
    >>> from substrate.datasets import sinc_outliers
    >>> from substrate.kernels import RBF
    >>> from substrate.losses import Huber, Pinball
    >>> X, y = sinc_outliers(random_state=0)
    >>> model = KernelRegressor(RBF(1.0), 10.0, loss=Huber(1.0)).fit(X, y)
    >>> bool(model.certificate_.holds)
    True
    >>> quantile = KernelRegressor(RBF(1.0), 10.0, loss=Pinball(0.9)).fit(X, y)
    >>> float((y <= quantile.predict(X) + 1e-6).mean()) >= 0.9
    True
    """

    _page, _title = "huber_ls_svm", "Kernel regression"
    _typical = ({"loss": Huber(0.5)}, {"linear_columns": (0,)}, {"loss": loss_values.Pinball(0.8)}, {"basis": 5})


@dataclass(eq=False, repr=False)
class KernelClassifier(KernelMachine, Classifier):
    """Kernel classification with any loss of the margin, and a bias that is not penalised.

    Parameters
    ----------
    kernel, gamma, tol
        As for :class:`KernelRegressor`; the accuracy is a share of the spread of the codes.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.
    loss : Loss, default=None
        None is ``SquaredHinge()``, the 2-norm SVM, an LS-SVM on the rows inside of the margin ([Cawley2004]_ section
        4); its C is half of gamma. ``Hinge()`` is the support vector machine with C equal to gamma, ``Logistic()``
        kernel logistic regression.
    linear_columns, basis
        As for :class:`KernelRegressor`.
    class_weight : dict or "balanced", default=None
        Weights of the classes, multiplied into the weights of the rows.

    Attributes
    ----------
    support_ : array of shape (n_support,)
        The rows that have a coefficient in some machine, or the rows of the basis.
    support_values_, support_vectors_ : arrays
        Those rows only.
    classes_, code_book_
        As for :class:`~problems.LSSVMClassifier`.
    loss_, n_support_, bias_, kernel_, certificate_
        As for :class:`KernelRegressor`.

    Examples
    --------
    >>> from problems import KernelClassifier
    >>> from substrate.datasets import ripley
    >>> from substrate.kernels import RBF
    >>> X, y = ripley()
    >>> model = KernelClassifier(RBF(0.5), 30.0).fit(X, y)
    >>> model.n_support_ < len(y), bool(model.certificate_.holds)
    (True, True)
    """

    _page, _title = "squared_hinge_svm", "Kernel classification"
    _typical = ({"gamma": 10.0}, {"loss": loss_values.Logistic()}, {"linear_columns": (0,)}, {"basis": 5})
    _: KW_ONLY
    class_weight: Any = None
