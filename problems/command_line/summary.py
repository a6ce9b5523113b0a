"""The last lines of ``substrate fit``: how good the model is, then what was chosen, in at most fifteen lines.

A line is wrapped where standard output is a terminal; a file or a pipe has one line for each statement.
"""

import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from problems.command_line.words import in_shell
from problems.tables.machines import CRITERION_WORDS
from problems.tables.quality import Quality, QualityMeasure
from substrate.arrays import Array
from substrate.certificates import Certificate
from substrate.errors import SubstrateError
from substrate.kernels import Kernel, Matern

__all__ = [
    "describe_choice",
    "describe_file",
    "digits",
    "importance",
    "importance_shares",
    "important",
    "is_reliable",
    "kernel_name",
    "said",
    "summary",
]

#: Lines about the table, inputs that are named as those that matter, and machines of a stack that are named.
_MOST_REMARKS, _MOST_INPUTS, _MOST_MACHINES = 5, 5, 3
#: How many times the distance from the exact optimum must fit into the error on other rows to be of no account.
_WELL_KNOWN = 10.0
#: Multiplications up to which importances are looked for.
_MOST_WORK = 4e9
#: Permutations of each input, and rows beyond which one has to do: so many rows average over themselves.
_REPEATS, _MANY_ROWS = 3, 5000
#: The least that shuffling an input that matters adds, as a share of the error, or takes from the accuracy.
_LEAST_SHARE = 0.01
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def said(lines: Iterable[str]) -> str:
    """Return lines without control characters; on a terminal wrapped, with continuation lines indented."""
    lines = [_CONTROL.sub("?", line) for line in lines]  # names of columns can hold any
    if not sys.stdout.isatty():
        return "\n".join(lines)
    width = max(shutil.get_terminal_size().columns, 40)
    options: dict[str, Any] = {"subsequent_indent": "    ", "break_long_words": False, "break_on_hyphens": False}
    return "\n".join(textwrap.fill(line, width, **options) if len(line) > width else line for line in lines)


def importance(model: Any) -> Any:
    """Measure the importance of inputs by leaving training rows out; None if the machine cannot, or if it takes more
    work than the fit.

    An input is a column of the table: the 0-1 columns of its categories are permuted together.
    """
    machine, X, groups = model.judged_.machine, model.judged_.X, model.preparation_.columns_of_inputs
    if len(groups) < 2 or not hasattr(machine, "left_out_importance"):
        return None
    repeats = _REPEATS if X.shape[0] <= _MANY_ROWS else 1
    work = float(X.size) * machine.support_values_.shape[0] * len(groups) * repeats
    if work * len(getattr(machine, "estimators_", (None,))) > _MOST_WORK:
        return None
    rows = (X, model.judged_.y) if hasattr(machine, "basis_indices_") else ()  # a basis does not keep them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # importances that rounding decides are not shown
        importances = machine.left_out_importance(*rows, n_repeats=repeats, groups=groups)
    return importances if importances.certificate.holds else None


def important(importances: Any) -> list[int]:
    """Return the inputs whose importance is more than chance, and than a hundredth, the most important first."""
    mean, deviation = np.asarray(importances.importances_mean), np.asarray(importances.importances_std)
    least = np.maximum(2.0 * deviation, _LEAST_SHARE * abs(importances.left_out_score))
    return [int(k) for k in np.argsort(-mean, kind="stable") if mean[k] > least[k]]


def importance_shares(importances: Any) -> tuple[Array, Array]:
    """Return the share of each input in the error that shuffling adds, and its standard deviation."""
    mean, deviation = np.asarray(importances.importances_mean), np.asarray(importances.importances_std)
    total = max(float(mean.clip(0.0).sum()), np.finfo(float).tiny)
    return mean / total, deviation / total


def is_reliable(certificate: Certificate, quality: Quality) -> bool:
    """Return whether to predict with a model.

    Where only the choice of a weight is not proved, the machine of this weight is; and a solution that is known to a
    tenth of the errors on other rows is known well enough, as for a table without noise.
    """
    failed = {row.name for row in certificate.failures}
    if all(name.startswith(("gap of", "range of")) for name in failed):
        return True
    error = quality.measures[0]
    is_known = error.in_units and _WELL_KNOWN * certificate.accuracy <= error.value
    return is_known and failed <= {"accuracy", *(name for name in failed if name.startswith(("gap of", "range of")))}


def kernel_name(kernel: Kernel) -> str:
    """Return a kernel in few words: "Matern 5/2, one width per input"."""
    parts = [getattr(kernel, name, None) for name in ("left", "right", "kernel")]
    inner = [kernel_name(part) for part in parts if isinstance(part, Kernel)]
    if inner:
        joined = " plus " if type(kernel).__name__ == "Sum" else " times "
        return joined.join(inner)
    name = type(kernel).__name__
    if isinstance(kernel, Matern):
        name = f"Matern {round(2 * kernel.nu)}/2"
    width: Any = getattr(kernel, "sigma", None)
    if width is None:
        return name
    return f"{name}, one width per input" if np.ndim(width) else f"{name} of width {digits(width)}"


def summary(model: Any, why: str, importances: Any, *, verbose: bool = False, report: str | None = None) -> list[str]:
    """Return the lines; ``verbose`` adds all remarks and the rows of the certificates."""
    quality, remarks = model.quality_, [in_shell(remark) for remark in (why, *model.remarks_[1:])]
    lines = [f"NOT GOOD: this model is {quality.worse_than}; do not predict with it"] if quality.worse_than else []
    if len(remarks) > _MOST_REMARKS and not verbose:
        more = len(remarks) - _MOST_REMARKS + 1
        remarks = [*remarks[: _MOST_REMARKS - 1], f"and {more} more remarks on the table (--verbose, or the report)"]
    lines += [*remarks, *_quality(quality)]
    lines += [*_matter(model, importances), describe_choice(model)]
    if verbose:
        lines += ["", *str(model.judged_.machine.certificate_).splitlines()]
        if model.estimator_ is not model.judged_.machine:
            lines += ["", "fitted again to all rows:", *str(model.estimator_.certificate_).splitlines()]
    if report is not None:
        lines.append(f"report: {report}")
    return lines


def _quality(quality: Quality) -> list[str]:
    rows = quality.rows.replace("rows", "row") if quality.n_rows == 1 else quality.rows
    cells = [(f"on {quality.n_rows} {rows}", "this model", quality.baseline)]
    for measure in quality.measures:
        cells.append((f"  {measure.name}", _n(measure, measure.value), _n(measure, measure.baseline)))
    widths = [max(len(row[k]) for row in cells) for k in range(3)]
    lines = [f"{a.ljust(widths[0])}  {b.rjust(widths[1])}  {c.rjust(widths[2])}" for a, b, c in cells]
    return [*lines, f"  ({quality.caveat})"] if quality.caveat else lines


def _n(measure: QualityMeasure, value: float) -> str:
    if np.isnan(value):
        return "-"
    return digits(value) if measure.in_units else f"{round(value, 3) + 0.0:.3f}"  # + 0.0: no minus zero


def digits(value: float) -> str:
    """Return a number to three digits, without an exponent where it is of ordinary size."""
    return f"{float(f'{value:.3g}'):.6g}"


def _matter(model: Any, importances: Any) -> list[str]:
    """Return the inputs whose values matter most to errors of left-out rows, where the machine can tell."""
    if importances is None:
        return []
    order = important(importances)[:_MOST_INPUTS]
    if not order:
        return ["inputs that matter: none; shuffling the values of an input changes no error"]
    inputs, (shares, _) = model.preparation_.inputs, importance_shares(importances)
    listed = ", ".join(f"{inputs[k].name} ({shares[k]:.0%})" for k in order)
    return [f"inputs that matter: {listed} (share of the error that shuffling adds)"]


def describe_choice(model: Any) -> str:
    """Return the kernel and gamma of the machine, and how they were chosen."""
    machine, search = model.judged_.machine, model.judged_.search
    if search.model == "stack":
        u = machine.stack_weights_
        order = [int(m) for m in np.argsort(-u, kind="stable") if u[m] > 0.0]
        named = "; ".join(f"{u[m]:.0%} {kernel_name(machine.estimators_[m].kernel_)}" for m in order[:_MOST_MACHINES])
        more = f"; and {len(order) - _MOST_MACHINES} more" if len(order) > _MOST_MACHINES else ""
        return f"model: a stack, weights by leave-one-out error: {named}{more}"
    kernel = f"kernel {kernel_name(machine.kernel_)}"
    if search.model == "sparse":
        kernel = f"{kernel} on {machine.basis_indices_.size} basis vectors"
    if search.gamma is not None:
        return f"model: {kernel}; gamma {search.gamma:g}, as given"
    gamma = float(np.ravel(getattr(machine, "gamma_", machine.gamma))[0])
    n_tried = len(getattr(machine, "cv_results_", {}).get("param_kernel", []))
    tried = f", of {n_tried} kernels" if n_tried > 1 else ""
    return f"model: {kernel}; gamma {digits(gamma)}; by {CRITERION_WORDS[search.criterion]} error{tried}"


def describe_file(model: Any, out: str | None) -> str:
    """Return the line about the file of the model, once it is written."""
    judged, total = model.judged_, model.judged_.y.size + model.judged_.y_val.size
    if out is None:
        return "not saved: give --out model.npz to keep the model, --report report.html for a page about it"
    line = f"saved: {out}, fitted again to all {total} rows"
    if model.estimator_ is judged.machine:
        line = f"saved: {out}, the model of {'the' if judged.y_val.size else 'all'} {judged.y.size} rows that train"
        if model.refit and judged.y_val.size:
            line = f"{line}, since the certificate of the one fitted again to all rows does not hold"
    if not hasattr(model, "interval_guarantee"):
        return line
    try:
        guarantee = model.interval_guarantee(0.9)
    except SubstrateError:  # there are no left-out errors
        return line
    about = "at least 90" if guarantee.holds else "about 90"
    return f"{line}; its intervals for --coverage 0.9 cover {about} % of new rows, if they are like these"
