"""What ``substrate fit`` says at the end: how good the model is, then what was chosen and what is proved of it.

A line is wrapped where standard output is a terminal; a file or a pipe has one line for each statement.
"""

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable

import numpy as np

from problems.command_line.importances import importance, important
from problems.estimators.chosen.families import family_name
from problems.estimators.shared.importance import LeftOutImportance
from problems.tables.criterion_words import CRITERION_WORDS
from problems.tables.fit import Fit, bound_of, reliance_of, stack_errors
from problems.tables.intervals import describe_intervals
from problems.tables.models import MODELS
from problems.tables.quality import Confusion, Quality, QualityMeasure
from substrate.errors import DataError

__all__ = ["describe_file", "said", "summary"]

#: Classes up to which the table of confusion is shown without ``--verbose``.
_MOST_CLASSES = 6
#: Inputs that are named as those that matter.
_MOST_INPUTS = 5
#: Machines of a stack that are named.
_MOST_MACHINES = 4
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def said(lines: Iterable[str]) -> str:
    """Return lines as they are printed: on a terminal wrapped, what goes on being indented; without control
    characters.
    """
    lines = [_CONTROL.sub("?", line) for line in lines]  # names of columns can hold any
    if not sys.stdout.isatty():
        return "\n".join(lines)
    width = max(shutil.get_terminal_size().columns, 40)
    wrapped = (
        textwrap.fill(line, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False) or line
        if len(line) > width
        else line
        for line in lines
    )
    return "\n".join(wrapped)


def summary(fit: Fit, verbose: bool, importances: LeftOutImportance | None = None) -> list[str]:
    """Return the lines; ``verbose`` adds what was tried and the rows of the certificate.

    ``importances`` are those of the report, where there is one; they are measured here otherwise.
    """
    return [
        *_quality(fit.quality, verbose),
        *_matter(fit, importance(fit) if importances is None else importances),
        *_choice(fit),
        *_list_candidates(fit, verbose),
        *_certificate(fit, verbose),
    ]


def _quality(quality: Quality, verbose: bool) -> list[str]:
    rows = quality.rows.replace("rows", "row") if quality.n_rows == 1 else quality.rows
    head = (f"on {quality.n_rows} {rows}", "this model", quality.baseline)
    cells = [
        head,
        *(
            (f"  {measure.name}", _n(measure, measure.value), _n(measure, measure.baseline))
            for measure in quality.measures
        ),
    ]
    widths = [max(len(row[k]) for row in cells) for k in range(3)]
    lines = [f"{a.ljust(widths[0])}  {b.rjust(widths[1])}  {c.rjust(widths[2])}" for a, b, c in cells]
    if quality.worse_than:
        lines.insert(0, f"NOT GOOD: this model is {quality.worse_than}; do not predict with it")
    if quality.caveat:
        lines.append(f"  ({quality.caveat})")
    if quality.confusion is not None:
        lines += _confusion(quality.confusion, verbose)
    return ["", *lines]


def _n(measure: QualityMeasure, value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.4g}" if measure.in_units else f"{round(value, 3) + 0.0:.3f}"  # + 0.0: no minus zero


def _confusion(table: Confusion, verbose: bool) -> list[str]:
    if len(table.classes) > _MOST_CLASSES and not verbose:
        return [f"  ({len(table.classes)} classes; their table of confusion by --verbose)"]
    body = [["  rows of class", *(f"predicted {name}" for name in table.classes)]]
    body += [[f"    {name}", *map(str, row)] for name, row in zip(table.classes, table.counts.tolist(), strict=True)]
    widths = [max(len(row[k]) for row in body) for k in range(len(body[0]))]
    return [
        "  ".join(cell.ljust(width) if k == 0 else cell.rjust(width) for k, (cell, width) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in body)
    ]


def _matter(fit: Fit, importances: LeftOutImportance | None) -> list[str]:
    """Return the inputs whose values matter most to errors of left-out rows, where the machine can tell."""
    if importances is None:
        return []
    order = important(importances)[:_MOST_INPUTS]
    if not order:
        return ["inputs that matter: none is seen to, when its values are shuffled"]
    mean = np.asarray(importances.importances_mean)
    inputs, shares = fit.preparation.inputs, mean / max(float(mean.clip(0.0).sum()), np.finfo(float).tiny)
    listed = ", ".join(f"{inputs[k].name} ({shares[k]:.0%})" for k in order)
    return [f"inputs that matter: {listed} (share of the error that shuffling adds)"]


def _short(text: str) -> str:
    """Return a kernel as it is printed, its numbers with four digits, and many widths by their ends."""
    short = re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda match: f"{float(match.group()):.4g}", text)
    return re.sub(r"(?<!\.on)\(([\d.e+-]+(?:, [\d.e+-]+){3,})\)", lambda match: _ends(match.group(1)), short)


def _ends(listed: str) -> str:
    widths = [float(number) for number in listed.split(", ")]
    return f"<{len(widths)} widths, {min(widths):.4g} to {max(widths):.4g}>"


def _choice(fit: Fit) -> list[str]:
    model, kind = fit.model.estimator, MODELS[fit.choices.model]
    kernel = f"kernel {_short(repr(model.kernel_))}"
    weight = fit.choices.weights.of(fit.choices.model)
    if weight is not None:
        return [f"choice: {kind.weight} {weight:g}, as given; {kernel}"]
    if fit.choices.model == "stack":
        return _describe_stack(fit)
    bound = bound_of(fit)
    if bound is None:
        return [f"choice: gamma {model.gamma:.4g}, {kernel}, by the mean absolute leave-one-out error"]
    rule = CRITERION_WORDS[bound.by]
    lines = [f"choice: {bound.weight} {bound.value:.4g}, {kernel}, by {rule} error", *_describe_search(fit)]
    if np.isfinite(bound.lower_bound):
        regression = fit.preparation.task == "regression"
        root = np.sqrt if regression else float
        what = "RMSE" if regression else "mean square error of the outputs"
        lines.append(
            f"proof: no {bound.weight} of the range searched, with any kernel tried, has a {rule} {what} below "
            f"{root(max(bound.lower_bound, 0.0)):.5g}; this one has {root(bound.error):.5g}"
        )
    return lines


def _describe_stack(fit: Fit) -> list[str]:
    """Return the machines of a stack that have a weight, and what is proved of the weights."""
    model, is_regression = fit.model.estimator, fit.preparation.task == "regression"
    u = np.reshape(model.stack_weights_, (len(model.kernels_), -1))[:, 0]
    order = [int(m) for m in np.argsort(-u, kind="stable") if u[m] > 0.0]
    listed = [f"{u[m]:.2g} {_short(repr(model.kernels_[m]))}" for m in order[:_MOST_MACHINES]]
    more = f"; and {len(order) - _MOST_MACHINES} more" if len(order) > _MOST_MACHINES else ""
    seen = stack_errors(model)
    what = "RMSE" if is_regression else "root mean square error of the outputs"
    machines = "one machine" if len(order) == 1 else f"{len(order)} machines"
    return [
        f"choice: a stack of {machines}, weights by leave-one-out error: {'; '.join(listed)}{more}",
        f"proof: no other weights of the {u.size} machines tried have a leave-one-out {what} below "
        f"{seen.lower_bound:.5g}; these have {seen.error:.5g}",
    ]


def _describe_search(fit: Fit) -> list[str]:
    """Return how many kernels were judged, of which families, and how the widths were decided."""
    results = getattr(fit.model.estimator, "cv_results_", {}).get("param_kernel", [])
    if len(results) < 2:
        return []
    families = ", ".join(dict.fromkeys(map(family_name, results)))
    if not fit.choices.budget(fit.y.size):
        return [f"tried: {len(results)} kernels ({families})"]
    record = dict(fit.model.estimator.certificate_.record)
    widths, judged = (record.get(name, "").partition(";")[0] for name in ("widths", "kernels"))
    decided = {"shared": ", with one width for all inputs", "one per input": ", with one width per input"}
    return [f"tried: {families}, along slopes ({judged}){decided.get(widths, '')}"]


def _list_candidates(fit: Fit, verbose: bool) -> list[str]:
    results = getattr(fit.model.estimator, "cv_results_", None)
    if not verbose or results is None or "param_kernel" not in results:
        return []
    scores = -np.asarray(results["mean_test_score"])
    gammas = [np.atleast_1d(gamma)[0] for gamma in results["param_gamma"]]
    tried = zip(scores, gammas, results["param_kernel"], strict=True)
    lines = [f"  {score:<10.5g} gamma {gamma:<10.4g} {_short(repr(kernel))}" for score, gamma, kernel in tried]
    return ["tried (criterion, mean square):", *lines]


def _certificate(fit: Fit, verbose: bool) -> list[str]:
    certificate, lines = fit.saved.estimator.certificate_, []
    if fit.saved is not fit.model and not fit.model.estimator.certificate_.holds:
        lines = [f"certificate of the choice: {reliance_of(fit.model.estimator.certificate_, fit.quality).words}"]
    lines.append(f"certificate: {reliance_of(certificate, fit.quality).words}")
    if verbose:
        lines += ["", *str(certificate).splitlines()]
        if fit.saved is not fit.model:
            lines += ["", "of the choice, on the training rows:", *str(fit.model.estimator.certificate_).splitlines()]
    return lines


def describe_file(fit: Fit, out: str | None) -> list[str]:
    """Return the line about the file of the model, once it is written."""
    if out is None:
        return ["not saved: give --out model.npz to keep the model, --report report.html for a page about it"]
    return [_describe_saved(fit, out), *_describe_intervals(fit)]


def _describe_intervals(fit: Fit) -> list[str]:
    if fit.preparation.task != "regression":
        return []
    try:
        return [describe_intervals(fit.saved.estimator, fit.saved.preparation)]
    except DataError:  # no rows have errors of their own
        return []


def _describe_saved(fit: Fit, out: str) -> str:
    n, total = fit.y.size, fit.y.size + fit.y_val.size
    if fit.saved is not fit.model:
        return f"saved: {out}, fitted again to all {total} rows with this choice (--no-refit: the one of {n} rows)"
    only = f", the model of the {n} training rows" if fit.y_val.size else f", the model of all {n} rows"
    is_refitted = fit.choices.refit and fit.y_val.size and MODELS[fit.choices.model].least_squares
    why = ", since the certificate of the one fitted again to all rows does not hold" if is_refitted else ""
    return f"saved: {out}{only}{why}"
