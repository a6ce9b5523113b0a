"""Prediction intervals of machines that keep all their rows: the inverse of the saddle system, or of its features."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.full.nested import NestedIntervals
from problems.estimators.full.saddle_fit import SaddleFit
from problems.estimators.full.shaped import has_closed_forms, refuse_closed_form
from problems.estimators.shared.guarantees import chosen_on_rows, has_unequal_rows
from problems.estimators.shared.intervals import LeftOutIntervals
from problems.estimators.shared.left_out import LeftOutSystem, machine_groups
from substrate.arrays import Array, is_sparse
from substrate.errors import DeclarationError
from substrate.gram import Gram
from substrate.least_squares.leave_one_out import leave_one_out_residuals
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.robust_weights import check_choice
from substrate.namespaces import is_device_array, on_device_of, room_on_device, take_rows, to_numpy
from substrate.uncertainty.bands import Smoother, curve_length, tube_quantile
from substrate.uncertainty.influence import LeftOutMachines
from substrate.uncertainty.intervals import exact_level, noise_of_targets

__all__ = ["DenseIntervals"]


class DenseIntervals(NestedIntervals, LeftOutIntervals):
    """Intervals from support values and the diagonal of the system: a loaded model has them as well."""

    methods: ClassVar[tuple[str, ...]] = ("auto", "conformal", "jackknife+", "nested", "adaptive", "split")

    def ends(self, X: Any, coverage: float, method: str, rows: Any, diagonal: Any) -> Array:
        """Return the ends of intervals by any method; machines without folds are made at the first call."""
        method = self.check(coverage, method)
        if method == "nested":
            return self.nested_ends(X, coverage)
        if method == "adaptive":
            return self.adaptive_ends(X, coverage)
        return super().ends(X, coverage, method, rows, diagonal)

    def left_out_method(self) -> str:
        """Return how single rows are left out; where there are no closed forms, there are calibration rows only."""
        return super().left_out_method() if has_closed_forms(self.estimator) else "split"

    def is_searched(self) -> bool:
        """Return whether gamma, and perhaps the kernel, was chosen by a search."""
        return self.repeated()._chooses is not None

    def left_out_rows(self) -> tuple[Array, Array]:
        """Return left-out errors and left-out predictions of the rows of the fit, one column per output."""
        errors = np.stack([to_numpy(machines.residuals) for machines in self.machines(None)], axis=1)
        return errors, self.targets_and_weights()[0] - errors

    def targets_and_weights(self) -> tuple[Array, Array]:
        """Return the targets of the rows, which the system gives back, one column per output, and their weights."""
        model = self.estimator
        alpha, ridge, _ = model._model.to_columns()
        targets = np.reshape(to_numpy(model._evaluate(model.support_vectors_)), alpha.shape) + ridge * alpha
        return targets, 1.0 / (self.gammas(alpha.shape[1])[0] * ridge[:, 0])

    def has_unequal_weights(self) -> bool:
        """Return whether the rows of the fit differ in their weights."""
        return has_unequal_rows(self.estimator._model.ridge())

    def machines(self, rows: Any, gram: Gram | None = None) -> "tuple[LeftOutMachines, ...]":
        """Return all machines without one row, for every output; ``gram`` is their kernel matrix, if available."""
        model = self.estimator
        refuse_closed_form(model, "an interval by leaving rows out")
        alpha, ridge, _ = model._model.to_columns()
        gammas, bias = self.gammas(alpha.shape[1]), np.atleast_1d(to_numpy(model._model.bias()))
        # where there are slopes, the whole model predicts
        expanded = model._model.training_border().plain
        machines: dict[int, LeftOutMachines] = {}
        system = self.system(rows, int(alpha.shape[0]), gram)
        for members, columns, d in machine_groups(ridge, np.ones(ridge.shape, dtype=bool)):
            influence = system.on(members, d).influence()
            home = influence.diagonal
            residuals = leave_one_out_residuals(alpha[:, columns], to_numpy(home))
            for k, column in enumerate(columns):
                a, r = (on_device_of(home, np.ascontiguousarray(v)) for v in (alpha[:, column], residuals[:, k]))
                b = float(bias[int(column)]) if expanded else None
                machines[int(column)] = LeftOutMachines(
                    influence=influence,
                    support_values=a,
                    residuals=r,
                    diagonal=home,
                    gamma=gammas[int(column)],
                    bias=b,
                    ridge=d,
                )
        return tuple(machines[column] for column in range(alpha.shape[1]))

    def system(self, rows: Any, n: int, gram: Gram | None = None) -> LeftOutSystem:
        """Return the system of the n rows of the fit; refuse an inverse that does not fit memory."""
        model = self.estimator
        copies = 4.0 if is_device_array(model.support_values_) else 3.0
        advice = "keep rows for calibrate(X, y), and use method='split'."
        room_on_device(model.support_values_, 8.0 * copies * n * n, f"the {n} x {n} inverse", advice)
        gram = model._model.training_gram(rows[0] if isinstance(rows, tuple) else rows) if gram is None else gram
        system: LeftOutSystem = model._model.make_system(gram)
        return system

    def band(self, X: Any, coverage: float, simultaneous: bool, bias_corrected: bool, noise: str, rows: Any) -> Array:
        """Return the ends of a confidence band of the mean, for every output."""
        model = self.estimator
        check_choice(noise, ("constant", "varying"), "noise")
        level = float(exact_level(coverage))
        check_is_fitted(model)
        refuse_closed_form(model, "a confidence band")
        points = model._new_points(X)
        pairwise = bool(model.kernel_.pairwise)
        if simultaneous and (pairwise or is_sparse(points)):
            given = "a precomputed kernel" if pairwise else "a sparse matrix"
            raise DeclarationError(
                f"a simultaneous band needs points between the rows of X, which {given} does not give; use dense rows "
                "and a kernel of substrate.kernels, or simultaneous=False"
            )
        alpha, ridge, _ = model._model.to_columns()
        training = self.training_points(rows)
        fitted = np.reshape(to_numpy(model._evaluate(points)), (int(points.shape[0]), -1))
        gammas, ends = self.gammas(alpha.shape[1]), []
        for k, machine in enumerate(self.machines(rows)):

            def lines(at: Any, machine: Any = machine) -> Array:
                return np.asarray(to_numpy(machine.lines(at)))

            smoother = Smoother.of(
                hat=lines(training),
                errors=ridge[:, k] * alpha[:, k],
                weights=1.0 / (gammas[k] * ridge[:, k]),
                left_out=to_numpy(machine.residuals),
                corrected=bool(bias_corrected),
            )
            at_points, varying = lines(points), noise == "varying"
            spread, freedoms = smoother.spread(smoother.lines(at_points), varying)
            length = self._tube(smoother, smoother.deviations(varying), lines, points) if simultaneous else 0.0
            different, places = np.unique(freedoms, return_inverse=True)
            quantiles = np.array([tube_quantile(level, float(one), length) for one in different])
            reach = quantiles[places] * spread
            center = fitted[:, k] + smoother.shift(at_points)
            ends.append(np.stack([center - reach, center + reach], axis=-1))
        return on_device_of(points, ends[0] if model._outputs() == () else np.stack(ends, axis=1))  # type: ignore[no-any-return]

    def _tube(self, smoother: Any, deviations: Array, lines: Any, points: Any) -> float:
        """Return the length of the curve of unit vectors along the points: sorted, where there is one input."""
        corners = np.asarray(to_numpy(points))
        if corners.shape[1] == 1:
            corners = np.sort(corners, axis=0)
        largest = float(deviations.max())
        if largest == 0.0:
            return 0.0

        def unit_lines(at: Array) -> Array:
            vectors = smoother.lines(lines(on_device_of(points, at))) * (deviations / largest)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            return np.asarray(vectors / np.where(lengths > 0.0, lengths, 1.0))

        return curve_length(unit_lines, corners)

    def training_points(self, rows: Any) -> Any:
        """Return the rows of the fit as new points; of a precomputed kernel those of the matrix given."""
        model = self.estimator
        if not model.kernel_.pairwise:
            return model.support_vectors_
        model._model.training_gram(rows[0] if isinstance(rows, tuple) else rows)  # refuses a matrix of other rows
        matrix = rows[0] if isinstance(rows, tuple) else rows
        return take_rows(model._new_points(matrix), model.support_)

    def noise(self, rows: Any) -> Array:
        """Return the variance of the noise, one number per output."""
        return np.atleast_1d(self.estimator.noise_variance_)

    def keep_noise(self, Y: Array, fit: SaddleFit, gammas: tuple[float, ...], one_output: bool) -> None:
        """Keep what a new row of weight one needs besides the expansion, whatever the parameters are set to later."""
        noise = noise_of_targets(Y, fit.support_values, gammas, fit.border)
        ridge = Regularization(np.array(gammas)).lam
        self.estimator.noise_variance_ = float(noise[0]) if one_output else noise
        self.estimator.unit_ridge_ = float(ridge[0]) if one_output else ridge

    def gammas(self, n_outputs: int) -> tuple[float, ...]:
        """Return the gamma of a row of weight one, for every output."""
        return tuple(float(1.0 / ridge) for ridge in np.atleast_1d(self.estimator.unit_ridge_))

    def chosen_on_rows(self) -> tuple[str, ...]:
        """Return what was chosen or computed from the training rows; a new row has the weight of the others."""
        return chosen_on_rows(self.estimator, unequal=self.has_unequal_weights())
