"""The answer of a refitted machine of maximal variation: that of the LS-SVM on the chosen components."""

import math
import warnings
from typing import Any

import numpy as np

from problems.estimators.shared.checked_again import given_again, refuse_weights
from problems.estimators.shared.coded import numbers_of_codes
from problems.estimators.shared.machine_rows import each_machine
from substrate.arrays import EPS, Array
from substrate.certificates import Accuracy, Certificate, Row
from substrate.certificates.rows import accuracy_of_outputs, distance_row
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.least_squares.answer import Question, certified
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.proof import Proof, proof_of_outputs
from substrate.proof.least_squares import prove_expansion

__all__ = ["certify_refit", "mean_row", "of_selection", "prove_refit"]


def of_selection(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows of the machine that chose the components, whose accuracy is not that of the answer."""
    return tuple(row.plain(f"selection: {row.name}") if isinstance(row, Accuracy) else row for row in rows)


def mean_row(Y: Array, fitted: Array, labels: bool, tolerance: float) -> Accuracy:
    """The answer where only the bias is left: ``fitted`` compared with the means of the columns."""
    found = []
    for one in each_machine(Y, labels):
        y = one.y
        unit = float(np.abs(y).max()) or 1.0
        mean = unit * (math.fsum(y / unit) / y.size)
        bound = float(np.abs(np.broadcast_to(fitted, Y.shape)[one.rows, one.column] - mean).max())
        found.append(distance_row(y, np.ones_like(y), bound, "|b - mean of y|", tolerance=tolerance))
    return accuracy_of_outputs(found)


def certify_refit(model: Any, X: Any, y: Any, sample_weight: Any) -> Certificate:
    """Check the LS-SVM that predicts, and that its components are those that would be chosen again."""
    title, chosen = f"{model._title}, checked again", model.component_support_
    rows: list[tuple[Row, ...]] = []
    facts: dict[str, str] = {"kernel": repr(model.kernel_)}
    X, Y, machines = _machines(model, X, y, sample_weight)
    tolerance: float = model._tolerance()
    if not chosen.any():
        rows.append((mean_row(Y, np.reshape(model._evaluated(X), Y.shape), model._labels, tolerance),))
    for points, target, a, b, fitted, negative in machines:
        known = (target[:, None], (float(model.gamma),), np.ones(target.size), negative)
        question = Question(model.kernel_, points, *known, tolerance)
        answer = certified(question, a[:, None], np.array([b]), fitted[:, None], None)
        rows.append(answer.rows)
        facts |= dict(answer.facts)
    checks = worst_rows(rows)
    again = type(model)(**{**model.get_params(deep=False), **model._by_number(), "refit": False})
    with_labels = model.classes_[numbers_of_codes(Y, model.code_book_)] if model._labels else Y[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the rows state the result
        again.fit(X, with_labels)
    differ = Row(
        "components chosen", float((again._chosen(model.relevance) != chosen).sum()), 1.0, 0.5, "how many differ"
    )
    return Certificate(title, (*checks, *of_selection(again.certificate_.rows), differ), tuple(facts.items()))


def prove_refit(model: Any, X: Any, y: Any, sample_weight: Any) -> Proof:
    """Prove the answer of the LS-SVM on its components."""
    X, Y, machines = _machines(model, X, y, sample_weight)
    tolerance: float = model._tolerance()
    if not model.component_support_.any():
        row = mean_row(Y, np.reshape(model._evaluated(X), Y.shape), model._labels, tolerance)
        rounding = Y.shape[0] * EPS * np.abs(Y).max(axis=0)
        return proof_of_outputs(
            [
                Proof(one.value, one.spread, tolerance, float(most), 53)
                for one, most in zip(row.each, rounding, strict=True)
            ]
        )
    found = []
    for points, target, a, b, fitted, negative in machines:
        if not math.isfinite(negative):
            return Proof(math.inf, 0.0, tolerance, 0.0, 0, "the kernel matrix is not positive semi-definite")
        gamma, ones = float(model.gamma), np.ones(target.size)
        found.append(prove_expansion(model.kernel_, points, target, gamma, ones, a, b, fitted, tolerance=tolerance))
    return proof_of_outputs(found)


def _machines(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, list[Any]]:
    """Rows, targets, and for every machine points, target, stored numbers, what predict returns, and definiteness."""
    refuse_weights(model, sample_weight)
    X, Y = given_again(model, X, y, labels=model._labels)
    if not model.component_support_.any():
        return X, Y, []
    held = model._coefficients()
    a = held[:, None] if held.ndim == 1 else held
    if a.shape != Y.shape:
        raise DataError(f"the model has support values of shape {a.shape}, these rows need {Y.shape}")
    fitted, biases = np.reshape(model._evaluated(X), Y.shape), np.atleast_1d(model.bias_)
    found = []
    for one in each_machine(Y, model._labels):
        points, here = one.points(X, False), (one.rows, one.column)
        gram = Gram.of(model.kernel_, points)
        if not model.kernel_.trusted:
            gram.check_definite()
        found.append((points, one.y, a[here], float(biases[one.column]), fitted[here], gram.negative))
    return X, Y, found
