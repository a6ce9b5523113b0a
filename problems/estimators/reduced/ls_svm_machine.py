"""The base of sparse regression and classification, with targets as columns of numbers: state, checks, leave-one-out.

For rows that are read in a pass and not kept, leave-one-out returns the criteria only, from sums over them.
"""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.reduced.fit import CONDITIONAL, FitData, ReducedFit, iterated_fit, one_fit, prepare
from problems.estimators.reduced.importance import ReducedImportance
from problems.estimators.reduced.machine import ReducedMachine
from problems.estimators.shared.checked_again import Added, StoredMachine
from problems.estimators.shared.left_out import LeftOut
from substrate.arrays import Array, positive
from substrate.certificates import Certificate, Row, warn_unless_holds
from substrate.certificates.rounding import relative_rounding
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel
from substrate.least_squares.leave_one_out import gcv_of_means, generalized_cross_validation
from substrate.least_squares.saddle_system import target_unit
from substrate.namespaces import namespace_of, to_numpy
from substrate.proof import Proof
from substrate.reduced.features import eigen_features
from substrate.reduced.left_out import LeftOutRows, left_out_rows
from substrate.reduced.linear_columns import LinearColumns
from substrate.reduced.moments import origin_of
from substrate.reduced.rows import KernelRows
from substrate.reduced.spectrum import reduced_spectrum
from substrate.reduced.statistic import accumulate
from substrate.streaming import Passes

__all__ = ["LeftOutSums", "SparseMachine", "sum_left_out"]


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
    parts: Iterable[LeftOutRows], n_rows: int, mass: float, one: bool, wrong: Callable[[Array, Array], int | None]
) -> LeftOutSums:
    """Sums over consecutive parts; ``wrong`` counts the rows of a part that are decoded to a wrong class.

    Generalised cross-validation averages squared errors and leverages by weight; ``mass`` is the sum of the weights.
    """
    squares: Any = 0.0
    sizes: Any = 0.0
    errors: Any = 0.0
    freedom, by_weight, strange = 0.0, 0.0, 0
    classified = False
    for part in parts:
        part.refuse_undetermined()
        residuals = part.residuals
        squares = squares + np.square(residuals).sum(axis=0)
        sizes = sizes + np.abs(residuals).sum(axis=0)
        own = np.square(part.Y - part.fitted)
        errors = errors + (own if part.weights is None else part.weights[:, None] * own).sum(axis=0)
        freedom += float(part.leverages.sum())
        by_weight += float(part.leverages.sum() if part.weights is None else part.weights @ part.leverages)
        outputs = part.Y - residuals
        count = wrong(outputs[:, 0] if one else outputs, part.Y)
        classified, strange = count is not None, strange + (count or 0)
    gcv = gcv_of_means(errors / mass, by_weight / mass, n_rows)
    press, absolute, gcv = (float(value[0]) if one else value for value in (squares, sizes / n_rows, gcv))
    share = strange / n_rows if classified else None
    return LeftOutSums(n_rows, press, absolute, gcv, freedom, share, Certificate("", (), ()))


@dataclass(frozen=True, slots=True)
class StoredReduced:
    """All outputs of a model on the directions of its basis, as the rows are read."""

    model: ReducedMachine
    data: FitData
    gamma: float

    def certify(self) -> Added:
        """Bound the answer and check the equations, in passes over the rows."""
        return self.model._certified(self.model._training_rows(self.data), self.gamma)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic, of rows in memory."""
        known = self.model._in_memory(self.data)
        return self.model._proved(known, self.gamma, known.weights)


#: Multiplications up to which leave-one-out refits the machine without one row as a check.
_CHEAP_REFIT = 1e8


@dataclass(eq=False, repr=False)
class SparseMachine(ReducedImportance):
    """The common part of sparse regression and classification, with targets as columns of numbers."""

    gamma: float = 1.0
    _: KW_ONLY
    solver: str = "auto"
    _page = "reduced_basis_ls_svm"
    _solvers: ClassVar[tuple[str, ...]] = ("auto", "direct", "cg")

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the basis, then fit to all rows, wherever they are; targets are numbers, or labels of any kind.

        ``sample_weight`` has one weight of its squared error for each row: an array, also where rows are read in
        passes, or the path of a ``.npy`` file. Rows of weight zero are absent, also for the choice of the basis, which
        does not look at the other weights; only the rule ``"pruned"``, which goes by fits, weighs their errors. On a
        given basis a row of weight 2 counts as two rows.

        :place [Cawley2004]_ section 3.1: fifteen vectors are the full model on motorcycle
        """
        self._begin_fit()
        gamma, choice = positive(self.gamma, "gamma"), self._choice()
        self._check_solver()
        with self._reading(X, y, sample_weight) as data:
            kernel = self._data_kernel(data)
            prepared = prepare(kernel, data, choice, 1.0 / gamma, linear=self._linear_part(kernel, data))
            solve = iterated_fit if self.solver == "cg" else one_fit
            fit = solve(prepared, gamma, self._tolerance())
            self._keep_of_rows(fit)
        self._keep_classes(data.classes)
        self._keep(fit, data.outputs == 1)
        return self

    def leave_one_out(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> LeftOut | LeftOutSums:
        """Outputs, residuals and criteria of every training row with that row left out, in one pass and no refit.

        The training rows are given again, since the model keeps its basis only, and their weights if the fit had any: a
        row is left out whole, whatever its weight, and the rows of weight zero are absent here too. Of rows that are
        read in passes, those of mapped files among them, only the criteria are kept. Basis, kernel, gamma and scaling
        stay as they are although the left-out row had its part in choosing them: the certificate says so.
        """
        self._check_given(X)
        with self._reading_again(X, y, sample_weight) as data:
            return self._left_out(data, self._fitted_gamma(), self.support_values_.ndim == 1)

    def _linear_part(self, kernel: Kernel, data: FitData) -> LinearColumns | None:
        """Columns that are not penalised, found in a pass over the rows; there are none but of some machines."""
        return None

    def _keep_of_rows(self, fit: ReducedFit) -> None:
        """What else a machine wants to know of its rows while they can be read."""

    def _check_solver(self) -> None:
        known = SparseMachine._solvers  # "auto" for those without a choice
        if not isinstance(self.solver, str) or self.solver not in known:
            raise DeclarationError(f"solver must be one of {', '.join(known)}, received {self.solver!r}")
        path = Passes.of(self.passes).checkpoint
        if self.solver == "cg" and path is not None:
            raise DeclarationError(
                f"passes.checkpoint={path!r} keeps sums, and solver='cg' has none that outlast an iteration: leave "
                "passes.checkpoint at None, or use solver='direct'"
            )

    def _check_device_means(self) -> None:
        super()._check_device_means()
        if self.solver == "cg":
            raise DeclarationError(
                "solver='cg' works on numpy arrays (X.cpu().numpy(), X.get()); on a device use 'direct', which is "
                "'auto' too"
            )

    def _keep(self, fit: ReducedFit, one: bool, rows: tuple[Row, ...] = ()) -> None:
        """Set the fitted attributes, the one that marks the model as fitted last."""
        if fit.factor is not None and fit.freedom is not None:
            self.degrees_of_freedom_ = float(fit.freedom)
            self.leverage_factor_, self.leverage_offset_ = fit.factor.matrix, fit.factor.offset
        self.certificate_ = Certificate(self._title, (*fit.rows, *rows), fit.facts)
        warn_unless_holds(self.certificate_, fit.reason)
        beta = fit.coefficients[:, 0] if one else fit.coefficients
        self._keep_machine(fit.prepared, beta, float(fit.bias[0]) if one else fit.bias)

    def _stored_machines(self, data: FitData, X: Any, y: Any) -> StoredMachine:
        return StoredReduced(self, data, self._fitted_gamma())

    def _fitted_gamma(self) -> float:
        return positive(self.gamma, "gamma")

    def _check_given(self, X: Any) -> None:
        """Refuse leave-one-out, before any row is read, without rows or for a fit without sums."""
        check_is_fitted(self)
        if X is None:
            raise DataError(
                f"{type(self).__name__} keeps its basis and not its rows; give the training rows, leave_one_out(X, y)"
            )
        self._check_leverages("leave-one-out needs")

    def _left_out(self, data: FitData, gamma: float, one: bool) -> LeftOut | LeftOutSums:
        rows = self._training_rows(data)
        beta, bias = self._columns()
        factor = self._leverage_factor(rows.mass)
        text = f"{self._title}, leave-one-out without refitting"
        parts = left_out_rows(rows, beta, bias, factor)
        if rows.source.block_in_memory is None:
            sums = sum_left_out(parts, self.n_rows_, rows.mass, one, self._wrong)
            certificate = Certificate(text, (self._trace(sums.degrees_of_freedom),), (("conditional on", CONDITIONAL),))
            return replace(sums, certificate=certificate)
        held = list(parts)
        for part in held:
            part.refuse_undetermined()
        xp = namespace_of(held[0].Y)
        Y, fitted, leverages, residuals = (
            xp.concat([getattr(part, name) for part in held], axis=0)
            for name in ("Y", "fitted", "leverages", "residuals")
        )
        outputs = Y - residuals
        freedom = float(xp.sum(leverages))
        unit = target_unit(Y)
        v = None if rows.weights is None else to_numpy(rows.weights) * (rows.n_rows / rows.mass)
        trace = freedom if v is None else float(v @ to_numpy(leverages))
        gcv = unit**2 * np.asarray(generalized_cross_validation(to_numpy((Y - fitted) / unit), trace, v))
        checks, facts = [self._trace(freedom)], [("conditional on", CONDITIONAL)]
        if float(self.n_rows_) * rows.n_basis**2 <= _CHEAP_REFIT:
            known = to_numpy(Y), to_numpy(residuals)
            checks.append(self._refitted(rows, *known, gamma, int(xp.argmax(leverages))))
        else:
            facts.append(("refit", "none: a machine of this size is checked by the trace only"))
        first = outputs[:, 0] if one else outputs
        predictions, wrong = self._judged(first, Y)
        rest = residuals[:, 0] if one else residuals
        certificate = Certificate(text, tuple(checks), tuple(facts))
        return LeftOut(first, rest, predictions, freedom, float(gcv[0]) if one else gcv, wrong, certificate)

    def _trace(self, freedom: float) -> Row:
        """The sum of the leverages of all rows, compared with the degrees of freedom of the fit."""
        expected, tolerance = self.degrees_of_freedom_, 1e-9 + relative_rounding(1e3) * self.n_rows_
        return Row("trace of H", freedom - expected, expected, tolerance, "sum of h_ii - (1 + sum a/(a + 1/gamma))")

    def _wrong(self, outputs: Array, Y: Array) -> int | None:
        """The number of misclassified rows; None in regression."""
        _, share = self._judged(outputs, Y)
        return None if share is None else round(share * Y.shape[0])

    def _refitted(self, rows: KernelRows, Y: Array, residuals: Array, gamma: float, row: int) -> Row:
        """The row of largest leverage by an actual fit to the others on the same basis; targets are on the host."""
        K, rows = self._basis_matrix(rows), self._surveyed(rows)
        rest = rows.without(row)
        features = eigen_features(K).beside(rows.values.columns)
        origin = origin_of(K, rest.target_summary(), target_unit(Y), features.free)
        statistic = accumulate(rest, features, origin, 1.0 / gamma)
        spectrum = reduced_spectrum(features, statistic.origin, statistic.total)
        weights = spectrum.weights(1.0 / gamma)
        predicted = rows.taken([row]) @ features.coefficients(weights) + spectrum.bias(weights)
        explicit = Y[row] - statistic.origin.unit * to_numpy(predicted)[0]
        scale = float(np.abs(residuals).max()) + float(np.abs(Y - Y.mean(axis=0)).max())
        tolerance = 1e-9 + 10.0 * spectrum.decomposition_error(1.0 / gamma)
        difference = float(np.abs(explicit - residuals[row]).max())
        return Row(f"refit without row {row}", difference, scale, tolerance, "e_i/(1 - h_ii) - (t_i - f^(-i)(x_i))")

    def _judged(self, outputs: Array, Y: Array) -> tuple[Any, float | None]:
        return outputs, None

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if not self.__sklearn_is_fitted__():
            return
        known = [hasattr(self, name) for name in ("leverage_factor_", "leverage_offset_", "degrees_of_freedom_")]
        if any(known):  # a fit by conjugate gradients has none of them
            factor, offset = self.leverage_factor_, self.leverage_offset_
            fitting = factor.dtype.kind == "f" and factor.shape == (offset.size, self._columns()[0].shape[0])
            if not (all(known) and fitting and offset.ndim == 1):
                raise DataError("the leverage factor and the basis do not belong together")
