"""The base of sparse regression and classification, with targets as columns of numbers: state, checks, leave-one-out.

For rows that are read in a pass and not kept, leave-one-out returns the criteria only, from sums over them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.reduced.fit import CONDITIONAL, FitData, ReducedFit, fit_at, prepare
from problems.estimators.reduced.machine import ReducedModel
from problems.estimators.reduced.weighed import Weighed
from problems.estimators.shared.base import Fitted
from problems.estimators.shared.checked_again import Added, StoredMachine
from problems.estimators.shared.coded import class_factors, numbers_of_codes, scores_of, winners
from problems.estimators.shared.importance import LeftOutImportance, Losses, importance_of, refuse_matrix
from problems.estimators.shared.left_out import LeftOut
from substrate.arrays import Array, positive
from substrate.certificates import Certificate, Row, warn_unless_holds
from substrate.certificates.rounding import relative_rounding
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel
from substrate.least_squares.leave_one_out import gcv_of_means, generalized_cross_validation
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_system import target_unit
from substrate.namespaces import namespace_of, on_device_of, take_rows, to_numpy
from substrate.proof import Proof
from substrate.reduced.features import basis_features
from substrate.reduced.left_out import LeftOutRows, left_out_rows
from substrate.reduced.linear_columns import LinearColumns
from substrate.reduced.moments import accumulate, origin_of
from substrate.reduced.rows import KernelRows
from substrate.reduced.spectrum import reduced_spectrum
from substrate.streaming.rows import Source
from substrate.uncertainty.own_rows import MachinesWithoutRows, OwnRows

__all__ = [
    "LeftOutSums",
    "SparseModel",
    "fit_on_a_basis",
    "leave_one_out",
    "left_out_importance",
    "sum_left_out",
]


@dataclass(frozen=True, slots=True)
class LeftOutSums:
    """Criteria of the machines fitted without each row, one number or one per output.

    ``press`` is the predicted residual sum of squares, ``degrees_of_freedom`` the trace of H, ``misclassification`` the
    share of rows decoded to a wrong class, None in regression; for ``gcv`` squared errors and leverages are
    averaged by weight where rows have weights.
    """

    n_rows: int
    press: Any
    mean_absolute: Any
    gcv: Any
    degrees_of_freedom: float
    misclassification: float | None
    certificate: Certificate

    @property
    def mean_square(self) -> Any:
        """PRESS over the number of rows."""
        return self.press / self.n_rows


def sum_left_out(
    blocks: Iterable[LeftOutRows],
    n_rows: int,
    mass: float,
    is_single: bool,
    wrong: Callable[[Array, Array], int | None],
) -> LeftOutSums:
    """Return sums over consecutive parts; ``wrong`` counts the rows of a part that are decoded to a wrong class.

    Generalised cross-validation averages squared errors and leverages by weight; ``mass`` is the sum of the weights.
    """
    squares: Any = 0.0
    sizes: Any = 0.0
    errors: Any = 0.0
    freedom, by_weight, strange = 0.0, 0.0, 0
    classified = False
    for block in blocks:
        block.refuse_undetermined()
        residuals = block.residuals
        squares = squares + np.square(residuals).sum(axis=0)
        sizes = sizes + np.abs(residuals).sum(axis=0)
        training_squares = np.square(block.Y - block.fitted)
        errors = errors + (
            training_squares if block.weights is None else block.weights[:, None] * training_squares
        ).sum(axis=0)
        freedom += float(block.leverages.sum())
        by_weight += float(block.leverages.sum() if block.weights is None else block.weights @ block.leverages)
        outputs = block.Y - residuals
        count = wrong(outputs[:, 0] if is_single else outputs, block.Y)
        classified, strange = count is not None, strange + (count or 0)
    gcv = gcv_of_means(errors / mass, by_weight / mass, n_rows)
    press, absolute, gcv = (float(value[0]) if is_single else value for value in (squares, sizes / n_rows, gcv))
    share = strange / n_rows if classified else None
    return LeftOutSums(
        n_rows=n_rows,
        press=press,
        mean_absolute=absolute,
        gcv=gcv,
        degrees_of_freedom=freedom,
        misclassification=share,
        certificate=Certificate("", (), ()),
    )


@dataclass(frozen=True, slots=True)
class StoredReduced:
    """All outputs of a model on the directions of its basis, as the rows are read."""

    model: ReducedModel
    data: FitData
    gamma: float

    def certify(self) -> Added:
        """Bound the answer and check the equations, in passes over the rows."""
        return self.model.certify(self.model.training_rows(self.data), self.gamma)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic, of rows in memory."""
        training_rows = self.model.read_in_memory(self.data)
        return self.model.prove(training_rows, self.gamma, training_rows.weights)


#: Multiplications up to which leave-one-out refits the machine without one row as a check.
_CHEAP_REFIT = 1e8


def fit_on_a_basis(self: Fitted, X: Any, y: Any = None, sample_weight: Any = None) -> Fitted:
    """Choose the basis, then fit to all rows, wherever they are; targets are numbers, or labels of any kind.

    ``sample_weight`` has one weight of its squared error for each row: an array, also where rows are read in
    passes. Rows of weight zero are absent, also for the choice of the basis, which does not look at the other weights;
    only the rule ``"pruned"``, which goes by fits, weighs their errors. On a given basis a row of weight 2 counts as
    two rows.

    :place [Cawley2004]_ section 3.1: fifteen vectors are the full model on motorcycle
    """
    estimator: Any = self
    estimator._begin_fit()
    model, gamma = estimator._model, positive(estimator.gamma, "gamma")
    model.choice()  # refused before any row is read
    data = model.read(X, y, sample_weight)
    kernel = model.data_kernel(data)
    prepared = prepare(kernel, data, model.choice(), Regularization(gamma).lam, linear=model.linear_part(kernel, data))
    fit = fit_at(prepared, gamma, estimator._tolerance())
    model.keep_of_rows(fit)
    estimator._keep_classes(data.classes)
    model.keep(fit, data.outputs == 1)
    return self


def leave_one_out(self: Any, X: Any = None, y: Any = None, sample_weight: Any = None) -> LeftOut | LeftOutSums:
    """Return outputs, residuals and criteria of every training row with that row left out, in one pass and no refit.

    The training rows are given again, since the model keeps its basis only, and their weights if the fit had any: a
    row is left out whole, whatever its weight, and the rows of weight zero are absent here too. Of rows that are
    read in passes, those of mapped files among them, only the criteria are kept. Basis, kernel, gamma and scaling
    stay as they are although the left-out row had its part in choosing them: the certificate says so.
    """
    left_out: LeftOut | LeftOutSums = self._model.leave_one_out(X, y, sample_weight)
    return left_out


def left_out_importance(
    self: Any,
    X: Any = None,
    y: Any = None,
    n_repeats: int = 5,
    random_state: Any = 0,
    *,
    groups: Any = None,
    sample_weight: Any = None,
) -> LeftOutImportance:
    """Return what every input is worth: the loss of left-out predictions when its values are permuted, without a refit.

    Each row is predicted by the machine fitted without it on the same basis, once as it is and once with the input
    of another row; the cost of an input and a repetition is that of :meth:`predict`.

    Parameters
    ----------
    X, y : array
        The training rows, in memory, and their targets.
    n_repeats : int, default=5
        Permutations of each input.
    random_state : int, Generator, RandomState or None, default=0
        Where permutations come from.
    groups : list of lists of int, default=None
        The columns of every input, such as the 0-1 columns of one category, which are permuted together; None takes
        every column for an input.
    sample_weight : array of shape (n_samples,), default=None
        That of the fit, also the weights of the rows in the mean.

    Returns
    -------
    LeftOutImportance
        ``importances_mean``, ``importances_std`` and ``importances``, in the units of the mean square error or of
        the accuracy. Basis, kernel, gamma and scaling are not chosen again.
    """
    importance: LeftOutImportance = self._model.left_out_importance(
        X, y, n_repeats, random_state, groups, sample_weight
    )
    return importance


class SparseModel(ReducedModel):
    """The LS-SVM on a reduced basis, with targets as columns of numbers."""

    def leave_one_out(self, X: Any, y: Any, sample_weight: Any) -> LeftOut | LeftOutSums:
        """Leave every row out of the fitted machines, in a pass over the rows."""
        self.check_given(X)
        data = self.read_again(X, y, sample_weight)
        return self.leave_out(data, self.fitted_gamma(), self.estimator.support_values_.ndim == 1)

    def left_out_importance(
        self, X: Any, y: Any, n_repeats: int, random_state: Any, groups: Any, sample_weight: Any
    ) -> LeftOutImportance:
        """Permute every input of rows that are left out."""
        model = self.estimator
        check_is_fitted(model)
        refuse_matrix(model)
        if X is None:
            raise DataError(
                f"{type(model).__name__} keeps its basis and not its rows; give the training rows again, "
                "left_out_importance(X, y), and their sample_weight if there was one"
            )
        data = self.read_again(X, y, sample_weight)
        rows = self.training_rows(data)
        block = data.source.whole("the values of an input are permuted in memory")
        left_out = self.leave_rows_out(rows, self.fitted_gamma())
        residuals = np.stack([to_numpy(sums_of_part.residuals) for sums_of_part in left_out], axis=1)
        targets: Array = to_numpy(block.Y)
        machines = OwnRows(
            (MachinesWithoutRows(np.arange(residuals.shape[1]), left_out[0].influence, residuals),),
            None,
            lambda points: np.reshape(to_numpy(self.evaluate(points)), (-1, residuals.shape[1])),
        )
        losses = Losses.of_model(model, targets, None if rows.weights is None else to_numpy(rows.weights))
        return importance_of(machines, block.X, targets - residuals, losses, n_repeats, random_state, groups)

    def linear_part(self, kernel: Kernel, data: FitData) -> LinearColumns | None:
        """Return columns that are not penalised, found in a pass over the rows; there are none but of some machines."""
        return None

    def keep_of_rows(self, fit: ReducedFit) -> None:
        """Keep what else a machine has to know of its rows, while they can be read."""

    def keep(self, fit: ReducedFit, one: bool, rows: tuple[Row, ...] = ()) -> None:
        """Set the fitted attributes, the one that marks the model as fitted last."""
        model = self.estimator
        if not model._labels:
            model._intervals.keep_noise(fit, one)
        model.degrees_of_freedom_ = float(fit.freedom)
        model.leverage_factor_, model.leverage_offset_ = fit.factor.matrix, fit.factor.offset
        model.certificate_ = Certificate(model._title, (*fit.rows, *rows), fit.facts)
        warn_unless_holds(model.certificate_)
        beta = fit.coefficients[:, 0] if one else fit.coefficients
        self.keep_machine(fit.prepared, beta, float(fit.bias[0]) if one else fit.bias)

    def recall_machines(self, data: FitData, X: Any, y: Any) -> StoredMachine:
        """Return all machines on the rows that are read."""
        return StoredReduced(self, data, self.fitted_gamma())

    def fitted_gamma(self) -> float:
        """Return the gamma of the fit: chosen, or given."""
        model = self.estimator
        chosen = model._chooses == "gamma"
        return float(model.gamma_) if chosen else positive(model.gamma, "gamma")

    def check_given(self, X: Any) -> None:
        """Refuse leave-one-out without rows, before any row is read."""
        check_is_fitted(self.estimator)
        if X is None:
            raise DataError(
                f"{type(self.estimator).__name__} keeps its basis and not its rows; give the training rows, "
                "leave_one_out(X, y)"
            )

    def leave_out(self, data: FitData, gamma: float, one: bool) -> LeftOut | LeftOutSums:
        """Leave every row out; of rows that are not in memory only the criteria are kept."""
        model = self.estimator
        rows = self.training_rows(data)
        beta, bias = self.columns()
        factor = self.leverage_factor(rows.mass)
        text = f"{model._title}, leave-one-out without refitting"
        blocks = left_out_rows(rows, beta, bias, factor)
        if rows.source.block_in_memory is None:
            sums = sum_left_out(blocks, model.n_rows_, rows.mass, one, self.wrong)
            certificate = Certificate(text, (self.trace(sums.degrees_of_freedom),), (("conditional on", CONDITIONAL),))
            return replace(sums, certificate=certificate)
        blocks_in_memory = list(blocks)
        for block in blocks_in_memory:
            block.refuse_undetermined()
        xp = namespace_of(blocks_in_memory[0].Y)
        Y, fitted, leverages, residuals = (
            xp.concat([getattr(block, name) for block in blocks_in_memory], axis=0)
            for name in ("Y", "fitted", "leverages", "residuals")
        )
        outputs = Y - residuals
        freedom = float(xp.sum(leverages))
        unit = target_unit(Y)
        v = None if rows.weights is None else to_numpy(rows.weights) * (rows.n_rows / rows.mass)
        trace = freedom if v is None else float(v @ to_numpy(leverages))
        gcv = unit**2 * np.asarray(generalized_cross_validation(to_numpy((Y - fitted) / unit), trace, v))
        checks, facts = [self.trace(freedom)], [("conditional on", CONDITIONAL)]
        if float(model.n_rows_) * rows.n_basis**2 <= _CHEAP_REFIT:
            targets_and_residuals = to_numpy(Y), to_numpy(residuals)
            checks.append(self.refit(rows, *targets_and_residuals, gamma, int(xp.argmax(leverages))))
        else:
            facts.append(("refit", "none: a machine of this size is checked by the trace only"))
        first = outputs[:, 0] if one else outputs
        predictions, wrong = self.judge(first, Y)
        residuals_shown = residuals[:, 0] if one else residuals
        certificate = Certificate(text, tuple(checks), tuple(facts))
        return LeftOut(
            outputs=first,
            residuals=residuals_shown,
            predictions=predictions,
            degrees_of_freedom=freedom,
            gcv=float(gcv[0]) if one else gcv,
            misclassification=wrong,
            certificate=certificate,
        )

    def trace(self, freedom: float) -> Row:
        """Return the sum of the leverages of all rows, compared with the degrees of freedom of the fit."""
        expected, tolerance = self.estimator.degrees_of_freedom_, 1e-9 + relative_rounding(1e3) * self.estimator.n_rows_
        return Row(
            name="trace of H",
            value=freedom - expected,
            scale=expected,
            tolerance=tolerance,
            formula="sum of h_ii - (1 + sum a/(a + 1/gamma))",
        )

    def wrong(self, outputs: Array, Y: Array) -> int | None:
        """Return the number of misclassified rows; None in regression."""
        _, share = self.judge(outputs, Y)
        return None if share is None else round(share * Y.shape[0])

    def refit(self, rows: KernelRows, Y: Array, residuals: Array, gamma: float, row: int) -> Row:
        """Return the row of largest leverage by an actual fit to the others on the same basis; targets are on the
        host.
        """
        K, rows, lam = self.basis_matrix(rows), self.survey(rows), Regularization(gamma).lam
        other_rows = rows.drop_row(row)
        features = basis_features(K).beside(rows.values.linear)
        origin = origin_of(K, other_rows.target_summary(), target_unit(Y), features.free)
        statistic = accumulate(other_rows, features, origin, lam, K)
        spectrum = reduced_spectrum(statistic)
        weights = spectrum.weights(lam)
        predicted = rows.take_rows([row]) @ features.coefficients(weights) + spectrum.bias(weights)
        explicit = Y[row] - statistic.origin.unit * to_numpy(predicted)[0]
        scale = float(np.abs(residuals).max()) + float(np.abs(Y - Y.mean(axis=0)).max())
        tolerance = 1e-9 + 10.0 * spectrum.decomposition_error(lam)
        difference = float(np.abs(explicit - residuals[row]).max())
        return Row(
            name=f"refit without row {row}",
            value=difference,
            scale=scale,
            tolerance=tolerance,
            formula="e_i/(1 - h_ii) - (t_i - f^(-i)(x_i))",
        )

    def judge(self, outputs: Array, Y: Array) -> tuple[Any, float | None]:
        """Return predictions from outputs, and the share of wrong ones in classification."""
        model = self.estimator
        if not model._labels:
            return outputs, None
        decoded, encoded = (
            winners(scores_of(outputs, model.coding, model.code_book_)),
            numbers_of_codes(Y, model.code_book_),
        )
        return take_rows(on_device_of(decoded, model.classes_), decoded), float(np.mean(to_numpy(decoded != encoded)))

    def class_factors(self, labels: Any, weights: Any) -> Any:
        """Return the weights of the classes, one per row; None where there are none."""
        class_weight = getattr(self.estimator, "class_weight", None)
        if class_weight is None:
            return None
        return on_device_of(weights, class_factors(class_weight, to_numpy(labels), to_numpy(weights)))

    def weigh(self, rows: Source, sample_weight: Any, mean_one: bool = False) -> Weighed:
        """Return the weights of rows that are read in passes; those of classes need labels in memory."""
        class_weight = getattr(self.estimator, "class_weight", None)
        if class_weight is not None:
            raise DeclarationError(
                f"class_weight={class_weight!r} needs labels in memory, and {rows.name} is read in passes; give "
                "sample_weight, one weight per row"
            )
        return super().weigh(rows, sample_weight, mean_one)

    def read(self, X: Any, y: Any, sample_weight: Any = None) -> FitData:
        """Return the data of a fit; a classifier refers to rows that are read in passes until it is calibrated."""
        model = self.estimator
        data = super().read(X, y, sample_weight)
        if model._labels and data.source.block_in_memory is None and model._calibration.keeps_rows():
            model._calibration.state().rows = (X, y, sample_weight)
        return data

    def check_loaded(self) -> None:
        """Refuse leverages that no fit leaves."""
        super().check_loaded()
        model = self.estimator
        names = ("leverage_factor_", "leverage_offset_", "degrees_of_freedom_")
        if not all(hasattr(model, name) for name in names):
            raise DataError(f"a model on a basis has {', '.join(names)}, and this file leaves some out")
        factor, offset = model.leverage_factor_, model.leverage_offset_
        fitting = factor.dtype.kind == "f" and factor.shape == (offset.size, self.columns()[0].shape[0])
        if not (fitting and offset.ndim == 1):
            raise DataError("the leverage factor and the basis do not belong together")
