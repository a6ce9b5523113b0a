"""The first screen of a report: how good is it, how sure, by which inputs, is it solved; and its table of errors."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from problems.command_line.fit import Fit, bound_of
from problems.command_line.intervals import interval_columns
from problems.estimators.shared.additive import AdditiveEstimator
from substrate.errors import SubstrateError

__all__ = ["Measure", "first_screen", "measures"]

#: The share of new targets that the intervals of the first screen hold.
_COVERAGE = 0.9
#: Most inputs named.
_NAMED = 5

#: A question, the answer in few words, a sentence, and how it is marked.
Answer = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Measure:
    """One line of the table of errors; None where there are no held-out rows, or nothing to compare with."""

    name: str
    training: float
    held_out: float | None
    baseline: float | None


def measures(fit: Fit) -> list[Measure]:
    """RMSE, mean squared error and R² of numbers, or the accuracy of classes; the baseline is a constant prediction."""
    model, y_val = fit.model.estimator, fit.y_val
    inside, outside = model.predict(fit.X), model.predict(fit.X_val) if y_val.size else None
    judged = y_val if y_val.size else fit.y
    if fit.preparation.task == "classification":
        classes, counts = np.unique(fit.y, return_counts=True)
        right = None if outside is None else float(np.mean(outside == y_val))
        always = float(np.mean(judged == classes[counts.argmax()]))
        return [Measure("accuracy (share of right classes)", float(np.mean(inside == fit.y)), right, always)]
    first, second = _square(inside - fit.y), None if outside is None else _square(outside - y_val)
    constant = _square(judged - fit.y.mean())
    roots = float(np.sqrt(first)), None if second is None else float(np.sqrt(second)), float(np.sqrt(constant))
    lines = [Measure("RMSE (root mean squared error)", *roots), Measure("mean squared error", first, second, constant)]
    spread, other = float(np.var(fit.y)), float(np.var(judged))
    if spread > 0.0 and other > 0.0:
        explained = None if second is None else 1.0 - second / other
        name = "R² (share of the variance explained)"
        lines.insert(0, Measure(name, 1.0 - first / spread, explained, 1.0 - constant / other))
    return lines


def _square(errors: Any) -> float:
    return float(np.mean(errors**2))


def first_screen(fit: Fit) -> list[Answer]:
    """The four answers."""
    return [_good(fit), _sure(fit), _inputs(fit), _solved(fit)]


def _good(fit: Fit) -> Answer:
    question, rows = "How good is it?", fit.y_val.size
    lines = measures(fit)
    where = (
        f"on {rows} held-out rows"
        if rows
        else "on the training rows: no rows were held out, new rows are predicted worse"
    )
    value = lines[0].held_out if rows else lines[0].training
    if fit.preparation.task == "classification":
        always = f"Always the most frequent class (baseline): {_percent(lines[0].baseline)}."
        return question, f"{_percent(value)} right", f"{_started(where)}. {always}", ""
    root = next(one for one in lines if one.name.startswith("RMSE"))
    error = root.held_out if rows else root.training
    against = f"RMSE {error:.4g}, against {root.baseline:.4g} for always predicting the training mean (baseline)"
    short = f"R² = {value:.3g}" if value is not None and lines[0].name.startswith("R²") else f"RMSE {error:.4g}"
    return question, short, f"{_started(where)}: {against}.", ""


def _started(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100.0 * share:.3g} %"


def _sure(fit: Fit) -> Answer:
    question, model = "How sure is it?", fit.model.estimator
    X, bound = fit.X_val if fit.y_val.size else fit.X, bound_of(fit)
    if fit.preparation.task == "regression" and bound is not None and bound.by == "validation":
        chose = f"The held-out rows chose {bound.weight}, so that no rows are left to measure errors on."
        return question, "Not measured", f"{chose} Fit again with --{bound.weight} {bound.value:.4g}, and they do.", ""
    try:
        if fit.preparation.task == "classification":
            confidence = float(np.mean(model.predict_proba(X).max(axis=1)))
            y = fit.y_val if fit.y_val.size else fit.y
            right = float(np.mean(model.predict(X) == y))
            return question, f"{_percent(confidence)} on average", (
                f"That is its own probability of being right; {_percent(right)} of these rows are. The nearer the two, "
                "the more its probabilities can be trusted."
            ), ""  # fmt: skip
        ends = interval_columns(model, X, _COVERAGE)
    except SubstrateError as error:
        return question, "No intervals", f"{_started(str(error))}.", ""
    width = float(np.median(ends["upper"] - ends["lower"])) / 2.0
    if not np.isfinite(width):
        return question, "Too few rows", f"{fit.y_val.size} held-out rows do not determine an interval of 90 %.", ""
    return question, f"± {width:.3g}", (
        f"About this prediction, 90 % of new targets are expected to lie; substrate predict --coverage {_COVERAGE:g} "
        "gives the interval of every row."
    ), ""  # fmt: skip


def _inputs(fit: Fit) -> Answer:
    question, model, names = "Which inputs matter?", fit.model.estimator, fit.preparation.features
    if isinstance(model, AdditiveEstimator):
        variation, mask = np.atleast_2d(model.maximal_variation_).max(axis=0), model.get_support()
        order = [int(k) for k in np.argsort(-variation, kind="stable") if mask[k]]
        more = (
            f"{len(order)} of {len(names)} inputs vary by more than {model.relevance:g} of the largest; in this order."
        )
        return question, _listed([names[k] for k in order]), more, ""
    if len(names) == 1:
        return question, names[0], "It is the only one.", ""
    return question, f"{len(names)} inputs", f"All enter the kernel: {_listed(names)}.", ""


def _listed(names: Any) -> str:
    listed = ", ".join(names[:_NAMED]) or "none"
    return f"{listed} and {len(names) - _NAMED} more" if len(names) > _NAMED else listed


def _solved(fit: Fit) -> Answer:
    question, certificate = "Is it solved?", fit.model.estimator.certificate_
    if certificate.holds:
        more = f"{_started(certificate.promise)}. All {len(certificate.rows)} checks of the solution pass."
        return question, "Yes, the certificate holds", more, "holds"
    failed = ", ".join(row.name for row in certificate.failures)
    more = f"Failed: {failed}. Do not rely on this model. Known is: {certificate.promise}."
    return question, "No, the certificate does not hold", more, "fails"
