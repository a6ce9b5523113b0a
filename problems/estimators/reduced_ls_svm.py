r"""The LS-SVM on a reduced basis: few vectors in the expansion, the errors of all rows in the objective.

.. math::

    \min_{\beta, c, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l v_i \Big( y_i - c^T z_i - \sum_{j \in S} \beta_j k(x_i, s_j) - b \Big)^2,
    \qquad v_i = 1 \text{ unless given}

[Cawley2002]_ section 2, [Cawley2004]_ eq. (2)-(5), with the linear part of [Espinoza2005b]_, if any; see
:mod:`problems.reduced_basis_ls_svm` for the problem and :mod:`substrate.fits.basis_solution` for the closed form. Time
is linear in the number of rows, memory does not depend on it, and rows need not be in memory: ``fit`` takes arrays,
mapped ones too, Dask arrays and dataframes, or an iterable of blocks ``(X, y)`` that can be iterated again; see
:mod:`substrate.streaming`. With ``sample_weight`` the squared error of row i counts :math:`v_i` times; the choice of
the basis ignores the weights, but rows of weight zero are absent. Robust weights ([Suykens2002]_ Algorithm 1) multiply
the weights of the rows.

Leave-one-out takes one more pass, and keeps one number per row and output.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np

from problems.estimators.full.robust import WeightedFit, read_robust, reweigh_rows
from problems.estimators.reduced_fit import CONDITIONAL, FitData, PreparedRows, basis_choice, prepare
from problems.estimators.shared.base import Added, StoredFit, refuse_extreme, weight_facts
from problems.estimators.shared.checks import check_home
from problems.estimators.shared.left_out import LeftOutOutputs, gcv_of, has_shape
from substrate.arrays import (
    Array,
    blas_threads,
    namespace_of,
    on_device_of,
    own_copy,
    paired_sums,
    positive,
    room_on_device,
    target_unit,
    to_dense,
    to_numpy,
)
from substrate.balls import Balls
from substrate.bounds.proof import Proof, ball_matrix, prove_reduced, tolerance_in_balls
from substrate.certificate import Certificate, Row, accuracy_of_outputs, on_basis, warn_unless_holds
from substrate.errors import DataError, DeclarationError
from substrate.fits.basis_solution import UNKNOWN, AnswerBound, Penalty, solve_reduced
from substrate.intervals.conformal import LeftOutMachines
from substrate.kernels import Kernel
from substrate.left_out.influence import FeatureInfluence
from substrate.numbers import relative_rounding
from substrate.operators.basis_spectrum import (
    LeftOutRows,
    LeverageFactor,
    ReducedSpectrum,
    errors_of_block,
    left_out_rows,
    leverage_factor,
    reduced_spectrum,
)
from substrate.operators.features import accumulate, basis_features, independent_vectors
from substrate.operators.gram import Gram
from substrate.operators.kernel_rows import KernelRows, KernelValues, LinearColumns, columns_of, survey_linear_columns
from substrate.operators.passes import sum_blocks, survey_targets
from substrate.operators.sources import (
    ArraySource,
    LabelCodes,
    SlicedSource,
    Source,
    is_mapped,
    numbers,
    source_of,
    streams,
    weights_of_source,
)

__all__ = ["BasisModel", "fit_at"]

#: Difference of the sum of leverages from the sum of the fit, as a share of it, that only other rows explain.
_OTHER_ROWS = 1e-4


@dataclass(frozen=True, slots=True)
class ReducedFit:
    """The solution of all outputs at one gamma, its leverages and its degrees of freedom."""

    prepared: PreparedRows
    coefficients: Array
    bias: Array
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    factor: LeverageFactor
    freedom: float
    noise: Array
    #: Further fitted attributes, by name.
    further: Mapping[str, Any] = field(default_factory=dict)


@np.errstate(over="ignore", invalid="ignore")  # overflow is not finite, and its rows fail
def fit_at(
    prepared: PreparedRows, gamma: float, tolerance: float, spectrum: ReducedSpectrum | None = None
) -> ReducedFit:
    """Solve at one gamma, refine, certify, and keep the factor for leave-one-out.

    ``tolerance`` is the accuracy required, as a share of the spread of y; ``spectrum`` is the spectrum of all rows, if
    known.
    """
    lam, rows = 1.0 / gamma, prepared.rows
    with blas_threads(rows.n_basis):  # once: to set the number and restore it takes as long as a small product
        if spectrum is None:
            statistic = accumulate(rows, prepared.features, prepared.origin, lam)
            spectrum = reduced_spectrum(statistic)
        solved = solve_reduced(rows, spectrum, lam, prepared.K, prepared.targets, tolerance)
        facts = (
            *prepared.facts,
            ("gamma", f"{gamma / prepared.data.unit:g}"),
            *weight_facts(rows.weights),
            ("solver", f"sums over the rows, refined {int(solved.is_refined)} times"),
            *(() if prepared.origin.unit == 1.0 else (("units", "residuals in units of max|y|"),)),
            *solved.facts,
        )
        machine, unit = spectrum.machine(), spectrum.origin.unit
        return ReducedFit(
            prepared=prepared,
            coefficients=solved.coefficients,
            bias=solved.bias,
            rows=(solved.row,),
            facts=facts,
            factor=leverage_factor(spectrum, lam),
            freedom=float(machine.degrees_of_freedom(lam)[0]),
            noise=machine.noise_variance(lam) * unit * unit,
        )


def kept_vectors(K: Array, coefficients: Array) -> Any:
    """Return the numbers of the vectors of a machine: all that are numerically distinct, and all that it uses."""
    used = np.flatnonzero(to_numpy(coefficients)[: K.shape[0]].any(axis=1))
    return np.union1d(independent_vectors(K), used)


@dataclass(frozen=True, slots=True)
class StoredReduced:
    """The outputs of a model on the directions of its basis, as the rows are read."""

    machine: "BasisModel"
    data: FitData

    @np.errstate(over="ignore", invalid="ignore")  # what overflows is not finite, and its rows fail
    def certify(self) -> Added:
        """Bound the answer of the stored coefficients, one column per output, in passes over the rows."""
        machine, model = self.machine, self.machine.model
        rows = machine.training_rows(self.data)
        K = machine.basis_matrix(rows)
        rows = machine.survey(rows)
        summary = rows.target_summary()
        unit = target_unit(summary.extremes)
        beta, shift = (column / unit for column in machine.columns())
        features = basis_features(K, kept_vectors(to_numpy(K), beta))
        beta, features = rows.values.scale(beta), features.beside(rows.values.linear)
        penalty = Penalty.of(rows.values, K, features)
        bound = AnswerBound(rows, features, penalty, 1.0 / machine.fitted_gamma(), unit, summary, model._tolerance())
        row = bound.best(beta, shift).row
        unknown = () if row.passes else (UNKNOWN,)
        return (row,), (("kernel", repr(model.kernel_)), *weight_facts(rows.weights), *unknown)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic, of rows in memory; return the worst proof of all outputs."""
        machine, data, model, kernel = self.machine, self.data, self.machine.model, self.machine.model.kernel_
        machine.training_rows(data)  # refuses others
        block = data.source.whole("a proof goes through all rows in memory")
        X, Y = to_numpy(block.X), to_numpy(block.Y)
        v = np.ones(block.n_rows) if block.weights is None else to_numpy(block.weights)
        v = v * getattr(model, "weights_", 1.0)
        beta, _ = machine.columns()
        linear = None
        if kernel.pairwise:
            X, points = to_dense(X), data.own_numbers(model.support_)
            basis = X[points]
            fitted = kernel.expansion_values(None, model.support_values_, model.bias_, X, points)
            K = basis[:, points]
        else:
            points = basis = to_numpy(model.support_vectors_)
            fitted = model._evaluate(block.X)
            K = np.asarray(kernel(points))
            linear = machine.values().linear
        kept = kept_vectors(K, beta)
        about = on_basis(kept.size, len(points))
        points, basis = points[kept], basis[kept]

        def matrices() -> tuple[Balls, Balls]:
            values = ball_matrix(kernel, X, points)
            if linear is not None:
                columns = columns_of(X, linear.numbers)
                values = values.beside(Balls.exact(columns) - Balls.exact(linear.center))
            return values, ball_matrix(kernel, basis, points)

        outputs = zip(Y.T, np.reshape(to_numpy(fitted), Y.shape).T, strict=True)
        tol, gamma = model._tolerance(), machine.fitted_gamma()
        proofs = [prove_reduced(matrices, t, gamma, v, f, tolerance_in_balls(t, v, tol)) for t, f in outputs]
        return accuracy_of_outputs([replace(proof, about=f"{proof.about}{about}") for proof in proofs])


@dataclass(frozen=True, eq=False, repr=False)
class BasisModel:
    """The LS-SVM on a reduced basis: few vectors in the expansion, all rows in the objective.

    Targets are columns of numbers. Rows need not be in memory. All that is fitted belongs to the estimator, ``model``.
    """

    model: Any

    def refuse_combinations(self) -> None:
        """Refuse parameters that a machine on a basis does not support, before any work."""
        model = self.model
        if model.solver not in ("auto", "cholesky"):
            raise DeclarationError(f"with a basis sums are solved, received solver={model.solver!r}; use 'auto'")
        if getattr(model, "c", None) is not None or (not model._labels and has_shape(model)):
            raise DeclarationError("c, monotone, convex and bounds are of a machine on all rows; leave basis=None")
        if getattr(model, "robust", None) is not None:
            read_robust(model.robust)
        basis_choice(model.basis)

    def fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Choose the basis, then fit to all rows, wherever they are; targets are numbers, or labels of any kind.

        :place [Cawley2004]_ section 3.1: fifteen vectors are the full model on motorcycle
        """
        model = self.model
        gamma = positive(model.gamma, "gamma")
        data = self.read(X, y, sample_weight)
        kernel, numbers, linear = self.data_kernel(data), tuple(model._linear_numbers()), None
        if numbers:
            linear = survey_linear_columns(data.source, kernel, numbers, model._linear_names())
        prepared = prepare(kernel, data, basis_choice(model.basis), 1.0 / gamma, linear=linear)
        self.keep(self.fit_prepared(prepared, gamma))

    def fit_prepared(self, prepared: PreparedRows, gamma: float) -> ReducedFit:
        """Fit at one gamma, and again with robust weights if requested."""
        model, tolerance = self.model, self.model._tolerance()
        if getattr(model, "robust", None) is None:
            return fit_at(prepared, gamma, tolerance)
        rows = prepared.rows
        given = np.ones(rows.n_rows) if rows.weights is None else to_numpy(rows.weights)

        def refit(v: Array) -> WeightedFit:
            fit = fit_at(replace(prepared, rows=rows.reweigh(v)), gamma, tolerance)
            beta, bias = to_numpy(fit.coefficients), to_numpy(fit.bias)
            errors = np.concatenate(list(rows.each(errors_of_block, beta, bias)))
            return fit, beta[:, 0], float(bias[0]), errors[:, 0]

        fit, added = reweigh_rows(read_robust(model.robust), refit, given)
        return cast(ReducedFit, replace(fit, **added))

    def read(self, X: Any, y: Any, sample_weight: Any = None) -> FitData:
        """Return the rows, targets and weights of a fit, checked, of rows in memory or read in passes.

        A classifier refers to rows that are read in passes until it is calibrated.
        """
        model, rows = self.model, self.open_source(X, y)
        is_searched = model._chooses is not None  # a search has weights of mean one, and gamma times that mean
        if rows is None:
            given = model._weighted(*model._check_data(X, y, sample_weight))
            coded = model._encode(given.y)
            return FitData.of_rows(given, coded.codes(given.y), coded, mean_one=is_searched)
        model._keep_columns(rows)
        data = self.weigh(rows, sample_weight, is_searched)
        targets = sum_blocks(data.source, partial(survey_targets, model._labels, rows.name))
        if model._labels and model._keeps_rows():
            model._kept.rows = (X, y, sample_weight)
        return data.code(targets, getattr(model, "coding", "one_vs_rest"))

    def weigh(self, rows: Any, sample_weight: Any, mean_one: bool = False) -> FitData:
        """Return rows that are read in passes with their weights; weights of classes need labels in memory."""
        class_weight = getattr(self.model, "class_weight", None)
        if class_weight is not None:
            raise DeclarationError(
                f"class_weight={class_weight!r} needs labels in memory, and {rows.name} is read in passes; give "
                "sample_weight, one weight per row"
            )
        if sample_weight is None:
            return FitData(rows)
        weights = weights_of_source(sample_weight, rows)
        (kept,) = np.nonzero(weights)
        refuse_extreme(weights[kept])
        data = FitData(replace(rows, kept=None if kept.size == weights.size else kept))
        return data.weigh(weights[kept], kept, weights.size, mean_one)

    def open_source(self, X: Any, y: Any) -> Source | None:
        """Return a source where X denotes one, and for mapped files, which are read slice by slice."""
        if streams(X, y):
            return source_of(X, y)
        if self.model.__sklearn_tags__().input_tags.pairwise or not is_mapped(X, 2):
            return None
        if y is not None and not is_mapped(y, 1):
            return None
        return SlicedSource.of_arrays(X, y)

    def data_kernel(self, data: FitData, kernel: Kernel | None = None) -> Kernel:
        """Return the kernel, by default the machine's, with its width; warn where columns have different scales."""
        kernel = kernel or self.model._own_kernel()
        is_matrix, why = kernel.pairwise, "a precomputed kernel matrix must be in memory"
        return self.model._resolved_kernel(data.source.whole(why).X if is_matrix else data.width_rows(), kernel)

    def keep(self, fit: ReducedFit) -> None:
        """Set the fitted attributes, the one that marks the model as fitted last."""
        model, prepared, data, basis = self.model, fit.prepared, fit.prepared.data, fit.prepared.basis
        outputs, linear, m = int(fit.coefficients.shape[1]), prepared.rows.values.linear, basis.size
        is_single = outputs == 1
        if linear is not None or np.size(model.linear_columns):
            fit = self.keep_linear_part(fit, linear, m, is_single)
        # of a row of weight one, not of the mean weight
        noise = None if model._labels else fit.noise * data.unit
        model._keep_units([self.fitted_gamma()] * outputs, noise, is_single)
        model.mass_, model.weighted_ = float(fit.factor.mass), prepared.rows.weights is not None
        for name, value in fit.further.items():
            setattr(model, name, value)
        model.degrees_of_freedom_ = float(fit.freedom)
        model.solver_, model.n_iter_ = "cholesky", 1
        model.leverage_factor_, model.leverage_offset_ = fit.factor.matrix, fit.factor.offset
        model.certificate_ = Certificate(model._title, fit.rows, fit.facts)
        warn_unless_holds(model.certificate_)
        model._keep_classes(data.coded)
        model.basis_indices_ = data.given_numbers(basis.rows)
        model.n_rows_, model.kernel_ = prepared.rows.n_rows, prepared.kernel
        model.rank_, model.reconstruction_error_ = prepared.features.of_kernel.rank, float(prepared.reconstruction)
        model.support_ = np.arange(basis.size) if basis.rows is None else model.basis_indices_
        if basis.points is not None:
            model.support_vectors_ = basis.points
        model.bias_ = float(fit.bias[0]) if is_single else fit.bias
        model.support_values_ = own_copy(fit.coefficients[:, 0] if is_single else fit.coefficients)

    def keep_linear_part(self, fit: ReducedFit, linear: LinearColumns | None, m: int, is_single: bool) -> ReducedFit:
        """Keep the coefficients of the linear part; return the fit without them, its leverages by the columns in their
        own units.
        """
        model = self.model
        slopes = None if linear is None else to_numpy(linear.unscale(fit.coefficients[m:, :]))
        center = np.zeros(0) if linear is None else linear.center
        bias = model._keep_linear(slopes, center, fit.bias, is_single, fit.coefficients)
        if linear is None:
            return fit
        matrix = fit.factor.matrix
        last = matrix[:, m:] / on_device_of(matrix, linear.units)
        factor = replace(fit.factor, matrix=namespace_of(matrix).concat([matrix[:, :m], last], axis=1))
        return replace(fit, bias=on_device_of(fit.bias, bias), coefficients=fit.coefficients[:m, :], factor=factor)

    def values(self) -> KernelValues:
        """Return what the machine is linear in: kernel values with the basis, and the columns of a linear part."""
        model, linear = self.model, None
        if hasattr(model, "linear_center_"):
            linear = LinearColumns.plain(model._linear_numbers(), model.linear_center_)
        return KernelValues(model.kernel_, model.support_vectors_, linear)

    def columns(self) -> tuple[Array, Array]:
        """Return coefficients, with the linear part last, and biases at its center, one column per output."""
        model, alpha = self.model, self.model.support_values_
        alpha = alpha[:, None] if alpha.ndim == 1 else alpha
        slopes, bias = model._linear_slopes(), on_device_of(alpha, np.atleast_1d(to_numpy(model._central_bias())))
        if slopes is None:
            return alpha, bias
        return namespace_of(alpha).concat([alpha, on_device_of(alpha, slopes)], axis=0), bias

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Read the data of the fit once more, and return all machines on them."""
        return StoredFit((StoredReduced(self, self.read_again(X, y, sample_weight)),))

    def read_again(self, X: Any, y: Any, sample_weight: Any = None) -> FitData:
        """Return training rows, targets and weights once more, for a check of what is held now."""
        model, rows = self.model, self.open_source(X, y)
        if rows is not None:
            data = self.weigh(rows, sample_weight)
            code = LabelCodes(model.classes_, model.code_book_) if model._labels else numbers
            source: Any = data.source
            return replace(data, source=replace(source, code=code))
        if y is None:
            raise DataError(
                "y is missing: rows in an array come with their targets, certify(X, y); only blocks of rows and Dask "
                "data frames bring their own"
            )
        given = model._weighted(*model._check_again(X, y, sample_weight))
        return FitData.of_rows(given, model._codes_again(given.y))

    def training_rows(self, data: FitData) -> KernelRows:
        """Return the rows of the fit on the basis, with the robust weights; refuse others."""
        model, source = self.model, data.source
        if source.block_in_memory is None:
            model._refuse_passes()
        else:
            check_home(model, model.support_values_, source.block_in_memory.X)
        if source.n_rows != model.n_rows_:
            raise DataError(
                f"the model was fitted to {model.n_rows_} rows, these are {source.n_rows}"
                + (" of positive weight" if data.kept is not None else "")
            )
        if model.kernel_.pairwise:
            block = source.whole("a precomputed kernel matrix must be in memory")
            source = ArraySource(Gram.of(model.kernel_, block.X).matrix, block.Y, weights=block.weights)
            rows = KernelRows(KernelValues(model.kernel_, data.own_numbers(model.support_)), source)
        elif source.n_features != model.n_features_in_:
            raise DataError(f"{source.name} has {source.n_features} columns, the model has {model.n_features_in_}")
        else:
            rows = KernelRows(self.values(), source)
        return rows.reweigh(model.weights_) if hasattr(model, "weights_") else rows

    def survey(self, rows: KernelRows) -> KernelRows:
        """Return the rows with what a pass finds of the linear columns."""
        linear, kernel = rows.values.linear, self.model.kernel_
        if linear is None:
            return rows
        names = self.model._linear_names()
        surveyed = survey_linear_columns(rows.source, kernel, linear.numbers, names, linear.center)
        return replace(rows, values=replace(rows.values, linear=surveyed))

    def basis_matrix(self, rows: KernelRows) -> Array:
        """Return the kernel matrix of the basis."""
        model = self.model
        if model.kernel_.pairwise:
            return rows.take_rows(rows.values.points)
        return model.kernel_(model.support_vectors_)

    def leverage_factor(self, mass: float) -> LeverageFactor:
        """Return the factor of the leverages of rows with this total weight."""
        return LeverageFactor(self.model.leverage_factor_, self.model.leverage_offset_, mass)

    def fitted_gamma(self) -> float:
        """Return the gamma of the fit: chosen, or given."""
        model = self.model
        return float(model.gamma_) if model._chooses == "gamma" else positive(model.gamma, "gamma")

    def effective_parameters(self) -> float:
        """Return the trace of the hat matrix."""
        return self.model.degrees_of_freedom_

    def read_training_rows(self, X: Any, y: Any = None, sample_weight: Any = None) -> FitData:
        """Return the training rows, which have to be given again."""
        if X is None:
            raise DataError(
                f"{type(self.model).__name__} with a basis keeps its basis and not its rows; give the training "
                "rows again, as X and y or rows=(X, y), and their sample_weight if there was one"
            )
        return self.read_again(X, y, sample_weight)

    def leave_rows_out(
        self, X: Any, y: Any = None, sample_weight: Any = None, is_checked: bool = True
    ) -> LeftOutOutputs:
        """Leave every row out, in one pass over the rows; one number per row and output is kept of rows in passes."""
        data = self.read_training_rows(X, y, sample_weight)
        rows, block = self.training_rows(data), data.source.block_in_memory
        left_out = left_out_rows(rows, *self.columns(), self.leverage_factor(rows.mass))
        check = self.trace(left_out)
        Y, leverages = to_numpy(left_out.Y), to_numpy(left_out.leverages)
        errors = to_numpy(left_out.Y - left_out.fitted)
        v = None if rows.weights is None else to_numpy(rows.weights)
        return LeftOutOutputs(
            X=None if block is None or self.model.kernel_.pairwise else block.X,
            targets=Y,
            errors=errors,
            residuals=to_numpy(left_out.residuals),
            weights=v,
            degrees_of_freedom=np.full(Y.shape[1], leverages.sum()),
            gcv=gcv_of(errors, leverages, v),
            conditional=CONDITIONAL,
            rows=(check,),
        )

    def leave_groups_out(self, left_out: LeftOutOutputs, groups: Any) -> Array:
        r"""Return the residuals of rows left out together with equal rows, whose numbers are ``groups``.

        With the errors :math:`e` of the fit, :math:`1 - h_i = e_i / r_i` is the spare leverage of a row; equal rows
        have equal errors, and without all of them the residual is :math:`e / (1 - \sum_i h_i)`. A row of weight two is
        so the same as two equal rows. One column per machine.
        """
        sizes, errors, residuals = np.bincount(groups), left_out.errors, left_out.residuals
        residuals_of_groups = residuals.copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            leverages = np.where(residuals == 0.0, 0.0, 1.0 - errors / residuals)
            for column in range(residuals.shape[1]):
                spare = 1.0 - np.bincount(groups, leverages[:, column])[groups]
                several = (sizes[groups] > 1) & (errors[:, column] != 0.0) & (spare > 0.0)
                residuals_of_groups[several, column] = errors[several, column] / spare[several]
        return residuals_of_groups

    def left_out_machines(self, rows: Any) -> tuple[LeftOutMachines, ...]:
        """Return all machines without one of the training rows, for every output, in one pass.

        Their features are :math:`\\sqrt{1/\\gamma}\\, (R\\, k_S(x) - r)` in the notation of
        :mod:`substrate.operators.basis_spectrum`: as many numbers per row as the basis has directions are kept.
        """
        given = rows if isinstance(rows, tuple) and 2 <= len(rows) <= 3 else (rows, None)
        training = self.training_rows(self.read_training_rows(*given))
        (beta, bias), root = self.columns(), self.unit_gamma() ** 0.5
        factor, n = self.leverage_factor(training.mass), training.n_rows
        r = int(factor.offset.shape[0])
        advice = "keep some rows for calibrate(X, y), and use method='split'."
        room_on_device(bias, 16.0 * n * (r + 1), f"the {n} x {r} coordinates of the rows", advice)
        left_out = left_out_rows(training, beta, bias, factor, True)
        self.trace(left_out)
        v = namespace_of(bias).ones_like(left_out.leverages) if left_out.weights is None else left_out.weights
        values, pulls, psi = training.values, root**2 * v, left_out.coordinates
        influence = FeatureInfluence(
            represent=lambda X: factor.coordinates(values.matrix(X)) / root,
            rows=psi / root,
            pulls=pulls,
            diagonal=pulls * (1.0 - left_out.leverages),
            constant=1.0 / (root**2 * factor.mass),
        )
        errors, residuals = left_out.Y - left_out.fitted, left_out.residuals
        return tuple(
            LeftOutMachines(influence, pulls * errors[:, k], residuals[:, k], 1.0 / pulls)
            for k in range(int(errors.shape[1]))
        )

    def spread(self, points: Any, diagonal: Array) -> Array:
        """Return p(x) of new points, one column, of the process whose mean is this machine of one output: no row is
        needed.

        The spread of the features z(x) is increased by k(x, x) - ||z(x)||^2, the part that the basis does not span:
        without it the error bars would vanish far from the basis ([Rasmussen2006]_ section 8.3.3).
        """
        model = self.model
        values, xp, gamma = self.values().matrix(points), namespace_of(diagonal), self.unit_gamma()
        z = values[:, : model.support_.size] @ basis_features(model.kernel_(model.support_vectors_)).transform
        missing = xp.clip(diagonal - paired_sums(z, z, 1), min=0.0)
        factor = self.leverage_factor(model.mass_)
        p = factor.leverages(factor.coordinates(values)) / gamma + missing
        return xp.stack([p], axis=1)

    def unit_gamma(self) -> float:
        """Return the gamma of a row of weight one, whatever the parameter is set to later."""
        return float(1.0 / np.atleast_1d(self.model.unit_ridge_)[0])

    def has_unequal_weights(self) -> bool:
        """Return whether the rows of the fit had weights."""
        return bool(self.model.weighted_)

    def trace(self, left_out: LeftOutRows) -> Row:
        """Return the sum of the leverages of all rows, checked against the degrees of freedom of the fit; refuse rows
        of another fit, and single rows that determine a machine.
        """
        expected, tolerance = self.model.degrees_of_freedom_, 1e-9 + relative_rounding(1e3) * self.model.n_rows_
        freedom = float(namespace_of(left_out.leverages).sum(left_out.leverages))
        if not abs(freedom - expected) <= _OTHER_ROWS * expected:
            raise DataError(
                f"these are not the rows of the fit: their leverages sum to {freedom:.6g}, and the model has "
                f"{expected:.6g} degrees of freedom; give the X and y that it was fitted to, with their sample_weight"
            )
        left_out.refuse_undetermined()
        return Row(
            name="trace of H",
            value=freedom - expected,
            scale=expected,
            tolerance=tolerance,
            formula="sum of h_ii - (1 + sum a/(a + 1/gamma))",
        )
