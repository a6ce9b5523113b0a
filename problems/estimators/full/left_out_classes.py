"""Calibration of dense LS-SVM classifiers by leaving every row out, without a refit."""

from typing import Any

import numpy as np

from problems.estimators.shared.calibration_scores import CalibrationScores, equal_rows, leave_groups_out
from problems.estimators.shared.coded import numbers_of_codes, scores_of
from problems.estimators.shared.left_out import KernelSystem, machine_groups
from problems.estimators.shared.machine_rows import points_of
from problems.estimators.shared.probabilities import Calibration
from substrate.arrays import Array
from substrate.errors import SolverError
from substrate.least_squares.leave_one_out import leave_one_out_residuals
from substrate.namespaces import is_device_array, to_numpy

__all__ = ["LeftOutClasses"]


class LeftOutClasses(Calibration):
    """Classifiers on one saddle system: left-out decision values, and machines enlarged by a row, in closed form.

    Rows that are equal in inputs and class are left out together, so that a row of weight two is what two equal rows
    are, and no copy of a row tells its class; the rows of a precomputed matrix count as different.
    """

    leaves_rows_out = True

    def keeps_rows(self) -> bool:
        """Return whether rows are to be kept: the support holds them all, but for a precomputed matrix."""
        return super().keeps_rows() and bool(self.estimator.__sklearn_tags__().input_tags.pairwise)

    def row_weights(self) -> Array:
        """Return the weights of the rows of the fit, with those of their classes."""
        model = self.estimator
        ridge, gammas = to_numpy(model.ridge_), model._gammas(model.code_book_.shape[1])
        return 1.0 / (gammas[0] * (ridge if ridge.ndim == 1 else ridge[:, 0]))  # type: ignore[no-any-return]

    def matrix_rows(self, rows: Any) -> Any:
        """Return what stands for the rows of the fit: a precomputed matrix, or nothing."""
        return rows[0] if self.estimator.kernel_.pairwise else None

    def score_left_out(self, rows: tuple[Any, Any, Any]) -> CalibrationScores:
        """Score in closed form; by folds where the kernel is not positive semi-definite and leaves some machine
        undefined.
        """
        model = self.estimator
        try:
            return self.leave_out_alone(rows)
        except SolverError:
            pairwise = model.kernel_.pairwise
            points = points_of(rows[0], model.support_, True) if pairwise else model.support_vectors_
            labels = model.classes_[numbers_of_codes(model._model.to_columns()[2], model.code_book_)]
            return self.score_folds(to_numpy(points), labels, self.row_weights())

    def fold_machine(self, X: Any) -> Any:
        """Return the estimator that is fitted without a fold; weights of classes are in those of the rows already."""
        machine = super().fold_machine(X)
        return machine.set_params(class_weight=None) if "class_weight" in machine.get_params(deep=False) else machine

    def leave_out_alone(self, rows: tuple[Any, Any, Any]) -> CalibrationScores:
        """Leave every row out in closed form, with its equals."""
        model = self.estimator
        alpha, ridge, codes = model._model.to_columns()
        classes, pairwise = numbers_of_codes(codes, model.code_book_), model.kernel_.pairwise
        groups = np.arange(len(classes)) if pairwise else equal_rows(to_numpy(model.support_vectors_), classes)
        if is_device_array(model.support_values_):
            left_out = model._model.leave_one_out(self.matrix_rows(rows))
            outputs, residuals = (
                np.reshape(to_numpy(values), alpha.shape) for values in (left_out.outputs, left_out.residuals)
            )
            together = leave_groups_out(ridge * alpha, residuals, groups)
            outputs = np.where(codes == 0.0, outputs, codes - together)
        else:  # equal rows are one row of the weight of all of them
            _, first = np.unique(groups, return_index=True)
            gram = model._model.training_gram(self.matrix_rows(rows))
            whole = first.size == len(classes)
            gram_of_group = gram if whole and (np.diff(first) == 1).all() else gram.restrict(first)
            merged: Array = np.column_stack([np.bincount(groups, column).astype(np.float64) for column in alpha.T])
            weighed = 1.0 / np.bincount(groups, 1.0 / ridge[:, 0])
            beside, border = (
                model._model.border_columns(alpha),
                model._model.training_border().take(first, 1.0 / weighed),
            )
            beside = beside if beside.ndim == 1 else beside[first]
            outputs = _left_out_outputs(KernelSystem(gram_of_group, border), merged, beside, weighed, codes[first])[
                groups
            ]
        scores = scores_of(outputs[:, 0] if outputs.shape[1] == 1 else outputs, model.coding, model.code_book_)
        return CalibrationScores.of(scores, classes, self.row_weights(), "left out")


def _left_out_outputs(system: KernelSystem, alpha: Array, bias: Array, ridge: Array, codes: Array) -> Array:
    """Return left-out outputs, one column per machine; machines on the same rows share an inverse.

    A machine that never used a row, where its code is zero, is unchanged without it.
    """
    members = codes != 0.0
    outputs = codes.copy() if members.all() else system.compute_fitted(alpha, bias)
    for rows, columns, d in machine_groups(np.broadcast_to(ridge[:, None], codes.shape), members):
        place = np.ix_(rows, columns)
        outputs[place] = codes[place] - leave_one_out_residuals(alpha[place], system.on(rows, d).diagonal())
    return outputs
