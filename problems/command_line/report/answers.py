"""The first screen of a report: how good is it, how sure, by which inputs, is it solved; and its table of errors."""

from typing import Any, NamedTuple

import numpy as np

from problems.command_line.importances import important
from problems.estimators.shared.components import RELEVANCE, is_additive
from problems.estimators.shared.importance import LeftOutImportance
from problems.tables.fit import Fit, bound_of, reliance_of
from problems.tables.intervals import interval_columns
from problems.tables.quality import TRAINING, quality_of
from substrate.errors import SubstrateError

__all__ = ["first_screen", "measures"]

#: The share of new targets that the intervals of the first screen hold.
_COVERAGE = 0.9
#: Most inputs named.
_NAMED = 5

#: A question, the answer in few words, a sentence, and how it is marked.
Answer = tuple[str, str, str, str]


class ErrorLine(NamedTuple):
    """A measure, its value on the training rows, on the rows that judge, and of the baseline."""

    measure: str
    training: float
    judged: float | None
    baseline: float


def measures(fit: Fit) -> list[ErrorLine]:
    """Return the lines of the table of errors."""
    task, rows = fit.preparation.task, (fit.X, fit.y)
    inside = quality_of(fit.model.estimator, fit.choices, task, *rows, *rows).measures
    alone = fit.quality.rows == TRAINING
    return [
        ErrorLine(measure.name, of_training.value, None if alone else measure.value, measure.baseline)
        for measure, of_training in zip(fit.quality.measures, inside, strict=True)
    ]


def first_screen(fit: Fit, importances: LeftOutImportance | None) -> list[Answer]:
    """Return the four answers."""
    return [_good(fit), _sure(fit), _inputs(fit, importances), _describe_solver(fit)]


def _good(fit: Fit) -> Answer:
    question, quality = "How good is it?", fit.quality
    where = f"On {quality.n_rows} {quality.rows}"
    state = "fails" if quality.worse_than else ""
    caveat = f" {_capitalise(quality.caveat)}." if quality.caveat else ""
    by_name = {measure.name: measure for measure in quality.measures}
    if fit.preparation.task == "classification":
        right = by_name["accuracy"]
        more = f"{where}; {quality.baseline} (baseline) is right in {_percent(right.baseline)}.{caveat}"
        short = f"Not good: {quality.worse_than}" if quality.worse_than else f"{_percent(right.value)} right"
        return question, short, more, state
    root, explained = by_name["RMSE"], by_name["R squared"]
    against = f"RMSE {root.value:.4g}, against {root.baseline:.4g} for {quality.baseline} (baseline)"
    short = f"R² = {explained.value:.3g}" if np.isfinite(explained.value) else f"RMSE {root.value:.4g}"
    short = f"Not good: {quality.worse_than}" if quality.worse_than else short
    return question, short, f"{where}: {against}.{caveat}", state


def _capitalise(text: str) -> str:
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
            return (
                question,
                f"{_percent(confidence)} on average",
                (
                    f"That is its own probability of being right; {_percent(right)} of these rows are. The nearer the "
                    "two, the more its probabilities can be trusted."
                ),
                "",
            )
        ends = interval_columns(model, X, _COVERAGE)
    except SubstrateError as error:
        return question, "No intervals", f"{_capitalise(str(error))}.", ""
    width = float(np.median(ends["upper"] - ends["lower"])) / 2.0
    if not np.isfinite(width):
        return question, "Too few rows", f"{fit.y_val.size} held-out rows do not determine an interval of 90 %.", ""
    return (
        question,
        f"± {width:.3g}",
        (
            f"About this prediction, 90 % of new targets are expected to lie; substrate predict --coverage "
            f"{_COVERAGE:g} gives the interval of every row."
        ),
        "",
    )


def _inputs(fit: Fit, importances: LeftOutImportance | None) -> Answer:
    question, model, names = "Which inputs matter?", fit.model.estimator, fit.preparation.features
    if is_additive(model):
        variation, mask = np.atleast_2d(model.maximal_variation_).max(axis=0), model.get_support()
        order = [int(k) for k in np.argsort(-variation, kind="stable") if mask[k]]
        share = f"{getattr(model, 'relevance', RELEVANCE):g}"
        more = f"{len(order)} of {len(names)} inputs vary by more than {share} of the largest; the largest first."
        return question, _list_names([names[k] for k in order]), more, ""
    names = tuple(input_.name for input_ in fit.preparation.inputs)
    if len(names) == 1:
        return question, names[0], "It is the only one.", ""
    if importances is None:
        return question, f"{len(names)} inputs", f"All enter the kernel: {_list_names(names)}.", ""
    how = "rows left out are predicted worse when the values of these inputs are shuffled; the most important first"
    order = important(importances)
    if not order:
        return question, "None is seen to", "Shuffling the values of an input makes left-out rows no worse.", ""
    return question, _list_names([names[k] for k in order]), f"{len(order)} of {len(names)} inputs: {how}.", ""


def _list_names(names: Any) -> str:
    listed = ", ".join(names[:_NAMED]) or "none"
    return f"{listed} and {len(names) - _NAMED} more" if len(names) > _NAMED else listed


def _describe_solver(fit: Fit) -> Answer:
    question, certificate = "Is it solved?", fit.model.estimator.certificate_
    if certificate.holds:
        more = f"{_capitalise(certificate.promise)}. All {len(certificate.rows)} checks of the solution pass."
        return question, "Yes, the certificate holds", more, "holds"
    reliance = reliance_of(certificate, fit.quality)
    failed = ", ".join(row.name for row in certificate.failures)
    if reliance.is_good:
        return question, "Yes", f"{_capitalise(reliance.words)}. Not proved: {failed}.", "holds"
    more = f"Failed: {failed}. Do not rely on this model. Known is: {certificate.promise}."
    return question, "No, the certificate does not hold", more, "fails"
