r"""Kernel machines with any loss of single rows, a bias, and columns that are not penalised.

.. math:: \min_{w, b, \beta} \tfrac12 w^T w + \gamma \sum_i v_i\, \ell(y_i, f(x_i)), \qquad
          f(x) = w^T \varphi(x) + \beta^T z + b

The losses are values of :mod:`substrate.losses`. With :class:`~substrate.losses.Huber` it is the machine of
:mod:`problems.huber_ls_svm`, with :class:`~substrate.losses.SquaredHinge` that of :mod:`problems.squared_hinge_svm`;
quantiles, expectiles, tubes, the hinge and the logistic loss are solved, bounded and proved by the same code.
"""

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from problems.estimators.shared.checked_again import Added, StoredFit, definite_gram
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.left_out import LeavesOut, RowsLeftOut, leave_one_out
from problems.estimators.shared.machine_rows import MachineRows, each_machine, in_columns
from problems.estimators.shared.regressor import Regressor
from substrate import losses as loss_values
from substrate.arrays import Array, positive
from substrate.bounds import FORMULA, EnclosedKernel, ExpansionPoint, RowMachine, bound_rows, optimality_rows
from substrate.certificates import NO_BOUND, Certificate, Row, Tolerance, unpolished_tolerance, warn_unless_holds
from substrate.errors import DataError, DeclarationError
from substrate.fits.row_left_out import leave_rows_out
from substrate.fits.row_newton import GramRows, RowPoint, solve_rows
from substrate.gram import Gram
from substrate.ingredients.zero_sum import zero_sum_row
from substrate.kernels import Kernel
from substrate.least_squares.border import Border
from substrate.least_squares.kernel_products import expansion_values
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.losses import Huber, Loss, RowLoss, SquaredHinge
from substrate.proof import Proof, precision, tolerance_in_balls

__all__ = ["KernelClassifier", "KernelRegressor"]

_UNKNOWN = (
    "rounding",
    "double precision does not bound this machine to the tolerance; scale the columns of X, or take a smaller gamma, "
    "or call prove(X, y)",
)
#: The losses that are taken unless others are given.
_HUBER, _SQUARED_HINGE = Huber(), SquaredHinge()
#: Smallest eigenvalues by which a matrix is lifted that is not positive semi-definite.
_LIFT = 1.0 + 1e-6
_INDEFINITE = "the kernel matrix is not positive semi-definite, so that the objective has no minimum"
#: Bits of a proof.
_BITS = 160
#: Accepted difference of a left-out value and of the same by a fit, beside rounding.
_CHECKED = 1e-6


class _Fit(NamedTuple):
    """One machine on its rows: coefficients, bias and slopes of the linear part, and the losses."""

    rows: MachineRows
    losses: RowLoss
    border: Border
    space: GramRows
    point: RowPoint
    bias: float
    slopes: Array | None


@dataclass(frozen=True, slots=True)
class StoredRows:
    """One machine as a model stores it, on its rows of positive weight."""

    kernel: Kernel
    points: Any
    gram: Gram
    y: Array
    weights: Array
    machine: RowMachine
    a: Array
    tolerance: float

    @property
    def _share(self) -> float:
        """The tolerance: its root for losses with kinks, whose gap is proportional to an error, not to its square."""
        return unpolished_tolerance(self.tolerance) if self.machine.losses.has_kinks else self.tolerance

    def certify(self) -> Added:
        """Bound the answer, and check the conditions of optimality."""
        record = self.gram.record()
        if not math.isfinite(self.gram.negative):
            return (), (*record, (NO_BOUND, _INDEFINITE))
        tolerance = Tolerance.of_page(self.y, self.weights, self._share)
        enough = tolerance.largest_radius
        bound = bound_rows(
            self.machine, ExpansionPoint(EnclosedKernel.stored(self.gram, self.points), self.a), -self.a, enough
        )
        if bound.radius > enough:
            point = ExpansionPoint(EnclosedKernel.of(self.gram, self.points), self.a)
            bound = min(bound, bound_rows(self.machine, point, -self.a, enough))
        lift = f" with {self.gram.negative:.1e} added to the diagonal of K" if self.gram.negative else ""
        row = tolerance.row(bound.radius, FORMULA, f"{bound.about}{lift}")
        linear = np.asarray(self.machine.border.slope_values(self.machine.slopes))
        f = self.gram.product(self.a) + self.machine.bias + linear
        rows = optimality_rows(self.machine, self.a, f, bound.gap, self.y, _CHECKED)
        unit = float(np.abs(self.y).max()) / (float(np.abs(self.gram.diagonal).max()) or 1.0)
        balance = (zero_sum_row(self.a, _CHECKED, np.array([unit])), *self.machine.border.row(self.a, _CHECKED))
        return (row, *rows, *balance), (*record, *(() if row.passes else (_UNKNOWN,)))

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        from substrate.proof.least_squares import ball_matrix  # for few, who have ball arithmetic

        permitted = Tolerance.of_page(self.y, self.weights, self._share)
        tolerance = tolerance_in_balls(self.y, self.weights, self._share)._replace(rounding=permitted.rounding)
        if not math.isfinite(self.gram.negative):
            return Proof.of(math.inf, tolerance, 0, _INDEFINITE)
        with precision(_BITS):
            point = ExpansionPoint(EnclosedKernel(ball_matrix(self.kernel, self.points)), self.a)
            bound = bound_rows(self.machine, point, -self.a, tolerance.largest_radius)
        return Proof.of(bound.radius, tolerance, _BITS, about=bound.about)


class RowLossModel(LeavesOut):
    """Machines with one loss per row; the model keeps the rows that have a coefficient."""

    conditional = "kernel, gamma, loss, weights and preparation of the columns"

    def fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit to numbers, or to the codes of labels."""
        model = self.estimator
        gamma, loss = positive(model.gamma, "gamma"), _loss_of(model)
        model._check_coding()
        X, y, weights = model._check_data(X, y, sample_weight, numeric=not model._labels)
        X, y, weights, numbers = model._weighted(X, y, weights)
        coded = model._encode(y)
        Y, kernel = coded.codes(y), model._resolved_kernel(X)
        gram, parts = definite_gram(kernel, X), list(each_machine(Y, model._labels))

        def solve(part: MachineRows, loss: Loss) -> _Fit:
            matrix = gram if part.whole else gram.restrict(part.rows)
            return self.fit_machine(part, part.points(X, kernel.pairwise), matrix, weights[part.rows], loss)

        def least_squares_errors() -> Array:
            return np.asarray(parts[0].y - solve(parts[0], loss_values.Squared()).point.f)

        loss = loss.resolve(least_squares_errors, weights)
        fits = [solve(part, loss) for part in parts]
        model.loss_ = loss
        a = in_columns(parts, [fit.point.u for fit in fits], Y.shape[0])
        used = self.keep_machines(X, numbers, kernel, fits, single=Y.shape[1] == 1)
        model._keep_classes(coded, Y[used])
        if model._labels:
            model.support_values_ = model.support_codes_ * model.support_values_
        facts = (
            ("gamma", f"{gamma:g}"),
            ("loss", repr(loss)),
            ("support", f"{model.n_support_} of {Y.shape[0]} rows"),
            ("solver", f"Newton's method, {sum(fit.point.steps for fit in fits)} systems"),
        )
        rows, known = [], dict[str, str]()
        for machine in self.recall_machines(X, Y, weights, a):
            machine_rows, more = machine.certify()
            rows.append(machine_rows)
            known |= dict(more)
        model.certificate_ = Certificate(model._title, worst_rows(rows), (*known.items(), *facts))
        warn_unless_holds(model.certificate_)

    def fit_machine(self, part: MachineRows, X: Any, gram: Gram, weights: Array, loss: Loss) -> _Fit:
        """Solve one machine on its rows; ``gram`` is their kernel matrix."""
        border = self.border(X, weights)
        losses = loss.of_rows(part.y, positive(self.estimator.gamma, "gamma") * weights)
        space = GramRows(_definite_matrix(gram), 1.0, border.matrix(part.y[:, None]))
        spread = float(np.ptp(part.y)) or float(np.abs(part.y).max()) or 1.0
        point = solve_rows(space, losses, spread)
        point = replace(point, u=-losses.limit_slopes(-point.u))
        bias, slopes = border.split(point.c[:, None])
        return _Fit(part, losses, border, space, point, float(bias[0]), slopes[:, 0] if border.slopes else None)

    def keep_machines(self, X: Any, numbers: Any, kernel: Kernel, fits: list[_Fit], *, single: bool) -> Array:
        """Keep what predicts, and return the rows that have a coefficient."""
        model = self.estimator
        a = in_columns([fit.rows for fit in fits], [fit.point.u for fit in fits], int(X.shape[0]))
        used = _used_rows(a)
        bias = np.array([fit.bias for fit in fits])
        each_slope = [fit.slopes for fit in fits if fit.slopes is not None]
        slopes = np.column_stack(each_slope) if each_slope else None
        bias = self.keep_linear(slopes, fits[0].border.center, bias, single, X)
        coefficients = np.ascontiguousarray(a[used, 0] if single else a[used])
        points = X if kernel.pairwise else X[used]
        model.n_support_ = int(used.size)
        model._keep_expansion(points, numbers[used], kernel, coefficients, float(bias[0]) if single else bias)
        return np.asarray(used)

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return all machines on the data of the fit."""
        return StoredFit(self.recall_machines(*self.recall_data(X, y, sample_weight)))

    def recall_data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Array, Array]:
        """Return rows of positive weight, their targets and weights, and the coefficients of all machines on them."""
        model = self.estimator
        X, targets, weights, numbers = model._weighted(
            *model._check_again(X, y, sample_weight, numeric=not model._labels)
        )
        if not model.kernel_.pairwise and X.shape[1] != model.n_features_in_:
            raise DataError(f"X has {X.shape[1]} features, this model was fitted to {model.n_features_in_}")
        Y = model._codes_again(targets) if model._labels else targets[:, None]
        places = np.searchsorted(numbers, model.support_)
        if places.size and (places.max() >= numbers.size or not np.array_equal(numbers[places], model.support_)):
            raise DataError(
                f"the model was fitted to other rows than these {numbers.size}; pass the X and y of the fit"
            )
        stored = model._coefficients()
        a = np.zeros((Y.shape[0], Y.shape[1]))
        a[places] = stored[:, None] if stored.ndim == 1 else stored
        return X, Y, weights, a

    def recall_machines(self, X: Any, Y: Array, weights: Array, a: Array) -> list[StoredRows]:
        """Return every machine on its rows, with the values that predict returns there."""
        model = self.estimator
        kernel, gram, gamma = model.kernel_, definite_gram(model.kernel_, X), positive(model.gamma, "gamma")
        fitted = np.reshape(self.values_at(X, _used_rows(a)), Y.shape)
        biases, slopes, machines = np.atleast_1d(self.bias()), self.linear_slopes(), []
        for part in each_machine(Y, model._labels):
            matrix, points = gram if part.whole else gram.restrict(part.rows), part.points(X, kernel.pairwise)
            v = weights[part.rows]
            machine = RowMachine(
                losses=model.loss_.of_rows(part.y, gamma * v),
                lam=1.0,
                border=self.border(points, v),
                weights=v,
                bias=float(biases[part.column]),
                fitted=fitted[part.rows, part.column],
                slopes=None if slopes is None else slopes[:, part.column],
            )
            stored = StoredRows(
                kernel, points, matrix, part.y, v, machine, a[part.rows, part.column], model._tolerance()
            )
            machines.append(stored)
        return machines

    def values_at(self, X: Any, used: NDArray[np.intp]) -> Array:
        """Return the values at the rows of the fit, as predict computes them; ``used`` are those with a coefficient."""
        model = self.estimator
        if model.kernel_.pairwise:
            return expansion_values(model.kernel_, None, model._coefficients(), self.unpenalised(X), X, used)
        values: Array = self.evaluate(X)
        return values

    def leave_rows_out(self, X: Any, y: Any = None, sample_weight: Any = None, is_checked: bool = True) -> RowsLeftOut:
        """Leave every row out of every machine, in closed form where no other row changes the piece of its loss."""
        model = self.estimator
        if X is None or y is None:
            raise DataError(
                f"{type(model).__name__} keeps the rows that have a coefficient alone; give the training rows again, "
                "leave_one_out(X, y), and their sample_weight if there was one"
            )
        X, Y, weights, a = self.recall_data(X, y, sample_weight)
        gram = definite_gram(model.kernel_, X)
        fitted = np.reshape(self.values_at(X, _used_rows(a)), Y.shape)
        residuals, checks, counts = np.full(Y.shape, np.nan), [], []
        for part in each_machine(Y, model._labels):
            matrix = gram if part.whole else gram.restrict(part.rows)
            fit = self.fit_machine(
                part, part.points(X, model.kernel_.pairwise), matrix, weights[part.rows], model.loss_
            )
            spread = float(np.ptp(part.y)) or 1.0
            left = leave_rows_out(fit.space, fit.losses, fit.point, spread)
            residuals[part.rows, part.column] = part.y - left.values
            counts.append((part.rows.size, left.fitted_again.size))
            checks.append(
                Row(
                    name=f"refit without row {left.row}",
                    value=left.difference,
                    scale=spread,
                    tolerance=_CHECKED,
                    formula="f^(-i)(x_i) as stated - by a fit",
                )
            )
        again = sum(again for _, again in counts)
        facts = (
            ("closed form", f"for {sum(n for n, _ in counts) - again} rows"),
            ("fitted again", f"for {again} rows, without which the pieces of the others do not settle"),
        )
        unknown, worst = np.full(Y.shape[1], np.nan), max(checks, key=lambda row: row.relative)
        return RowsLeftOut(X, Y, Y - fitted, residuals, weights, unknown, unknown, (worst,), facts)


def _used_rows(a: Array) -> NDArray[np.intp]:
    """Return the rows that have a coefficient in some machine; the first where none has."""
    (used,) = np.nonzero(a.any(axis=1))
    return used if used.size else np.zeros(1, dtype=np.intp)


def _definite_matrix(gram: Gram) -> Array:
    """Return the kernel matrix, lifted by its smallest eigenvalue where it is not positive semi-definite."""
    K = np.asarray(gram.matrix)
    if math.isfinite(gram.negative):
        return K
    return np.asarray(K - _LIFT * float(np.linalg.eigvalsh(K)[0]) * np.eye(gram.n))


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
class KernelRegressor(Regressor):
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

    Attributes
    ----------
    loss_ : Loss
        The loss with numbers for what depends on the data.
    support_values_ : array of shape (n_support,)
        The coefficients of the expansion: minus the slopes of the losses.
    support_ : array of shape (n_support,)
        The rows that have a coefficient.
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

    _model_type = RowLossModel
    _page, _title, _location = "huber_ls_svm", "Kernel regression", None
    _typical = ({"loss": Huber(0.5)}, {"linear_columns": (0,)}, {"loss": loss_values.Pinball(0.8)})
    gamma: float = 1.0
    _: KW_ONLY
    loss: Any = None
    linear_columns: Any = ()

    leave_one_out = leave_one_out

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y; a row of weight 2 counts as two rows, one of weight 0 not at all."""
        self._begin_fit()
        self._model.fit(X, y, sample_weight)
        return self


@dataclass(eq=False, repr=False)
class KernelClassifier(Classifier):
    """Kernel classification with any loss of the margin, and a bias that is not penalised.

    Parameters
    ----------
    kernel, gamma, tol
        As for :class:`KernelRegressor`; the accuracy is a share of the spread of the codes.
    loss : Loss, default=None
        None is ``SquaredHinge()``, the 2-norm SVM, an LS-SVM on the rows inside of the margin ([Cawley2004]_ section
        4); its C is half of gamma. ``Hinge()`` is the support vector machine with C equal to gamma, ``Logistic()``
        kernel logistic regression.
    linear_columns : list of int or str, default=()
        As for :class:`KernelRegressor`.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.
    class_weight : dict or "balanced", default=None
        Weights of the classes, multiplied into the weights of the rows.

    Attributes
    ----------
    support_ : array of shape (n_support,)
        The rows that have a coefficient in some machine.
    support_values_, support_vectors_ : arrays
        Those rows only.
    classes_, code_book_, support_codes_
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

    _model_type = RowLossModel
    _page, _title = "squared_hinge_svm", "Kernel classification"
    _typical = ({"gamma": 10.0}, {"loss": loss_values.Logistic()}, {"linear_columns": (0,)})
    gamma: float = 1.0
    _: KW_ONLY
    loss: Any = None
    linear_columns: Any = ()
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"
    class_weight: Any = None

    leave_one_out = leave_one_out

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X and labels y of any kind; a row of weight 2 counts as two rows, one of weight 0 not at all."""
        self._begin_fit()
        self._model.fit(X, y, sample_weight)
        return self
