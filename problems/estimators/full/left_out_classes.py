"""Calibration of dense LS-SVM classifiers by leaving every row out, and exact label sets, both without a refit."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from problems.estimators.shared.calibration_scores import CalibrationScores, equal_rows, leave_groups_out
from problems.estimators.shared.coded import numbers_of_codes, scores_of
from problems.estimators.shared.guarantees import Guarantee, chosen_on_rows, guarantee_of, has_unequal_rows
from problems.estimators.shared.intervals import diagonal_at
from problems.estimators.shared.left_out import KernelSystem, machine_groups
from problems.estimators.shared.machine_rows import points_of
from problems.estimators.shared.probabilities import Calibration
from substrate import uncertainty
from substrate.arrays import Array
from substrate.errors import SolverError
from substrate.least_squares.leave_one_out import leave_one_out_residuals
from substrate.least_squares.regularization import Regularization
from substrate.namespaces import is_device_array, row_blocks, to_numpy

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

    def sets_need_rows(self) -> bool:
        """Return whether exact sets need a matrix that the model does not hold."""
        return self.estimator.kernel_.pairwise and self.exact_sets()

    def exact_sets(self) -> bool:
        """Return whether all machines share their rows, the kernel is definite."""
        model = self.estimator
        scores = self.state().scores
        split = scores is not None and scores.source == "split"
        shared = model.code_book_.all() and not is_device_array(model.support_values_)
        definite = not any(name == "alteration" for name, _ in model.certificate_.record)
        return bool(shared and definite and not split)

    def less_strange(self, X: Any, rows: Any, diagonal: Any) -> tuple[Any, int]:
        """Return how many rows are less strange in machines enlarged by each new row, where sets are exact."""
        model = self.estimator
        if not self.exact_sets():
            return super().less_strange(X, rows, diagonal)
        alpha, ridge, codes = model._model.to_columns()
        points = model._new_points(X)
        point_diagonal = diagonal_at(model.kernel_, points, diagonal, "predict_set needs", "")
        gram = model._model.training_gram(self.matrix_rows(self.rows(rows)))
        system = KernelSystem(gram, model._model.training_border(), model._model.kernel_rows)
        influence = system.on(np.arange(gram.n), np.ascontiguousarray(ridge[:, 0])).influence()
        machine_values = (alpha, codes, influence.diagonal)
        classes, book = numbers_of_codes(codes, model.code_book_), model.code_book_
        decode = partial(_decode, coding=model.coding, book=book)
        return uncertainty.less_strange_enlarged(
            self.blocks(influence, points, point_diagonal), machine_values, classes, book, decode
        ), gram.n

    def blocks(
        self, influence: "uncertainty.Influence", points: Any, own: Array
    ) -> Iterator[tuple[Array, Array, Array]]:
        """Yield outputs, c and S of the new points, block by block."""
        model = self.estimator
        gamma = model._gammas(model.code_book_.shape[1])[0]
        for block in row_blocks(points.shape[0], model.support_.size):
            outputs = model._evaluate(points[block])
            c, p = influence.at(influence.represent(points[block]), own[block])
            yield (outputs[:, None] if outputs.ndim == 1 else outputs), c, p + Regularization(gamma).lam

    def exact_guarantee(self, coverage: float) -> Guarantee | None:
        """Return what exact sets guarantee; None where sets are not exact."""
        if not self.exact_sets():
            return None
        chosen = chosen_on_rows(self.estimator, unequal=has_unequal_rows(self.estimator.ridge_))
        return guarantee_of("conformal", coverage, 1, chosen)


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


def _decode(outputs: Array, coding: str, book: Array) -> Array:
    """Return decision values from outputs, one column per machine."""
    return scores_of(outputs[:, 0] if book.shape[1] == 1 else outputs, coding, book)
