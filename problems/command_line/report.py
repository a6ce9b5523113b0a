"""The report of ``substrate fit`` on one page: quality, intervals, important inputs, certificate, and how to use it."""

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import substrate
from problems.command_line.page import (
    answers,
    bullets,
    code,
    figure,
    figures,
    folded,
    page,
    paragraph,
    section,
    table,
)
from problems.command_line.words import in_shell
from problems.tables.machines import outputs_of
from problems.tables.predictions import interval_ends
from problems.tables.quality import digits, importance_shares, important, is_reliable, measure_quality
from problems.tables.table import named_columns
from substrate.arrays import Array
from substrate.errors import SubstrateError

__all__ = ["report"]

#: The share of new targets that the intervals of the first screen hold.
_COVERAGE = 0.9
#: Fewest held-out rows of a third by which intervals are checked.
_FEWEST_IN_A_THIRD = 5
#: Most classes with a curve, bars, inputs with a curve, points of a curve, and rows of a picture.
_CURVES, _BARS, _EFFECTS, _GRID, _DRAWN = 6, 12, 4, 60, 1000
#: Inches of a picture, and points of its letters, which stay above 11 pixels on a phone.
_SIZE, _LETTERS = (4.4, 3.2), 11.0
_CERTIFICATE = (
    "The first line bounds how far the fitted values can be from the exact optimum, in units of the target. "
    "Each further line is an equation that the exact optimum satisfies: its residual, recomputed from the data, has to "
    "be as small as rounding makes it. The gap of a chosen weight has to be as small as requested."
)

#: A question, the answer in few words, a sentence, and how it is marked.
_Answer = tuple[str, str, str, str]


def report(model: Any, why: str, path: str | None, importances: Any) -> str:
    """Return the page as text; ``path`` is the file of the model, if there is one."""
    preparation, judged = model.preparation_, model.judged_
    facts = map(in_shell, [why, *model.remarks_[1:]])
    sections = [
        answers([_good(model), _sure(model), _inputs_that_matter(model, importances), _solved(model)]),
        bullets(f"{fact[0].upper()}{fact[1:]}." for fact in facts),
        section("Accuracy", *_errors(model), *_intervals(model)),
        section("Pictures", figures(_pictures(model, importances))),
        section("Model", paragraph(f"{_capitalise(judged.search.describe(judged.machine))}."), _certificate(model)),
        section("Warnings", bullets(map(in_shell, judged.warnings))) if judged.warnings else "",
        _use(path),
        f"<footer>lssvm-substrate {escape(substrate.__version__)}</footer>",
    ]
    return page(f"{preparation.target} from {Path(preparation.source.removeprefix('@')).name}", sections)


def _capitalise(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _good(model: Any) -> _Answer:
    question, quality = "How good is it?", model.quality_
    caveat = f" {_capitalise(quality.caveat)}." if quality.caveat else ""
    by_name = {measure.name: measure for measure in quality.measures}
    if quality.classes:
        right = by_name["accuracy"]
        short, more = f"{right.value:.1%} right", f"{quality.baseline} (baseline) is right in {right.baseline:.1%}"
    else:
        root, explained = by_name["RMSE"], by_name["R squared"]
        more = f"RMSE {digits(root.value)}, against {digits(root.baseline)} for {quality.baseline} (baseline)"
        short = f"R² = {explained.value:.3g}" if np.isfinite(explained.value) else f"RMSE {digits(root.value)}"
    if quality.worse_than:
        short = f"Not good: {quality.worse_than}"
    more = f"On {quality.n_rows} {quality.rows}: {more}.{caveat}"
    return question, short, more, "fails" if quality.worse_than else ""


def _sure(model: Any) -> _Answer:
    question, judged = "How sure is it?", model.judged_
    machine, is_held = judged.machine, judged.y_val.size > 0
    X, y = (judged.X_val, judged.y_val) if is_held else (judged.X, judged.y)
    try:
        if model.quality_.classes:
            confidence = float(np.mean(machine.predict_proba(X).max(axis=1)))
            right = float(np.mean(machine.predict(X) == y))
            more = f"This is the mean probability of the predicted class; {right:.1%} of these rows are right. The "
            return question, f"{confidence:.1%} on average", f"{more}nearer the two, the more reliable they are.", ""
        ends = interval_ends(model.estimator_, X, _COVERAGE)
    except SubstrateError as error:
        return question, "No intervals", f"{_capitalise(in_shell(str(error)))}.", ""
    width = float(np.median(ends[:, 1] - ends[:, 0])) / 2.0
    if not np.isfinite(width):
        return question, "Too few rows", f"{y.size} rows do not determine an interval of 90 %.", ""
    more = (
        f"About this prediction, 90 % of new targets are expected to lie; substrate predict --coverage {_COVERAGE:g} "
    )
    return question, f"± {digits(width)}", f"{more}gives the interval of every row, and says what it guarantees.", ""


def _inputs_that_matter(model: Any, importances: Any) -> _Answer:
    question, names = "Which inputs matter?", [entry.name for entry in model.preparation_.inputs]
    if len(names) == 1:
        return question, names[0], "It is the only one.", ""
    if importances is None:
        return question, f"{len(names)} inputs", f"All enter the kernel: {named_columns(names)}.", ""
    order = important(importances)
    if not order:
        return question, "None that is visible", "Shuffling the values of an input makes left-out rows no worse.", ""
    how = "rows left out are predicted worse when the values of these inputs are shuffled; the most important first"
    return question, named_columns([names[k] for k in order]), f"{len(order)} of {len(names)} inputs: {how}.", ""


def _solved(model: Any) -> _Answer:
    question, certificate = "Is it solved?", model.judged_.machine.certificate_
    promise = _capitalise(certificate.promise)
    if certificate.holds:
        more = f"{promise}. All {len(certificate.rows)} checks of the solution pass."
        return question, "Yes, the certificate holds", more, "holds"
    failed = ", ".join(row.name for row in certificate.failures)
    if is_reliable(certificate, model.quality_):
        return question, "Yes", f"Accurate enough for errors of this size. {promise}. Not proved: {failed}.", "holds"
    more = f"Failed: {failed}. Do not rely on this model. {promise}."
    return question, "No, the certificate does not hold", more, "fails"


def _errors(model: Any) -> Iterator[str]:
    """Yield the measures on the training rows and on the others, and the classes against the predicted classes."""
    judged, quality = model.judged_, model.quality_
    of_training = judged.machine.predict(judged.X), outputs_of(judged.machine, judged.X)
    inside = measure_quality("training rows", judged.y, *of_training, judged.y).measures
    head = ("measure", "training rows", quality.rows, f"baseline\n{quality.baseline}")
    yield table(
        head,
        [
            [measure.name, *map(measure.show, (of_training.value, measure.value, measure.baseline))]
            for measure, of_training in zip(quality.measures, inside, strict=True)
        ],
    )
    if quality.counts is not None:
        yield paragraph("Rows by their class (down) and the predicted one (across):")
        lines = [[label, *map(str, row)] for label, row in zip(quality.classes, quality.counts.tolist(), strict=True)]
        yield table(["class", *(f"as {label}" for label in quality.classes)], lines)


def _intervals(model: Any) -> Iterator[str]:
    """Yield how wide intervals are, and how many held-out rows they hold, by thirds of the prediction."""
    judged = model.judged_
    if model.quality_.classes or judged.y_val.size < 3 * _FEWEST_IN_A_THIRD:
        return
    predicted = judged.machine.predict(judged.X_val)
    try:
        ends = interval_ends(model.estimator_, judged.X_val, _COVERAGE)
    except SubstrateError:  # the first screen says why there are none
        return
    rows = []
    for name, third in zip(("lowest", "middle", "highest"), np.array_split(np.argsort(predicted), 3), strict=True):
        y, (low, high) = judged.y_val[third], ends[third].T
        span = f"{name} third\n{digits(predicted[third].min())} to {digits(predicted[third].max())}"
        rows.append([span, f"± {digits(np.median(high - low) / 2.0)}", f"{np.mean((low <= y) & (y <= high)):.0%}"])
    yield paragraph("Intervals for 90 % of new rows, on the held-out rows:")
    yield table(("prediction", "interval", "rows inside"), rows)


def _certificate(model: Any) -> str:
    certificate = model.judged_.machine.certificate_
    head = ("check", "pass", "residual / scale", "allowed")
    rows = [
        [f"{row.name}\n{row.formula}", "yes" if row.passes else "NO", f"{row.relative:.1e}", f"{row.tolerance:.1e}"]
        for row in certificate.rows
    ]
    outcome = f"{certificate.title}: {'holds' if certificate.holds else 'does not hold'}; {certificate.promise}."
    facts = bullets(f"{name}: {fact}" for name, fact in certificate.record if name != "kernels")
    return folded("Certificate", paragraph(outcome), paragraph(_CERTIFICATE), table(head, rows, 2), facts)


def _use(path: str | None) -> str:
    if path is None:
        return section(
            "Use it", paragraph("The model was not saved: fit again with --out model.npz to predict with it.")
        )
    name = Path(path).name
    python = f'import problems\n\nmodel = problems.load({name!r})\nprint(model.predict("new.csv"))'
    shell = f"substrate predict {name} new.csv --out predictions.csv"
    return section("Use it", paragraph("At the prompt:"), code(shell), paragraph("In Python:"), code(python))


def _pictures(model: Any, importances: Any) -> Iterator[str]:
    """Yield the pictures of a fit."""
    import matplotlib

    matplotlib.use("agg")  # files only: no window, no display needed
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "report", "font.size": _LETTERS}):
        if not model.quality_.classes:
            yield _draw_predictions(model)
            yield _draw_residuals(model)
        elif model.judged_.y_val.size:
            yield _draw_probabilities(model)
        if importances is not None:
            yield _draw_importances(model, importances)
            for number in important(importances)[:_EFFECTS]:
                yield from _draw_effect(model, number)


def _plain(text: object) -> str:
    """Return text in which matplotlib does not find formulas."""
    return str(text).replace("$", r"\$")


def _axes(height: float = _SIZE[1]) -> tuple[Any, Any]:
    """Return a new figure and its axes, with few enough numbers below it that they do not touch."""
    from problems.displays.canvas import axes_for

    drawn, (axes,) = axes_for(None, size=(_SIZE[0], height))
    axes.locator_params(axis="x", nbins=4)
    return drawn, axes


def _rows_on(axes: Any, model: Any, places: Any, heights: Any) -> None:
    """Draw the training rows and the held-out rows, at ``places`` and ``heights`` computed from inputs and targets."""
    from problems.displays.canvas import GREY

    judged = model.judged_
    training, checking = {"color": GREY, "markersize": 4.0}, {"color": "black", "markersize": 5.0}
    for X, y, mark, options in (
        (judged.X, judged.y, "o", training | {"label": "training rows"}),
        (judged.X_val, judged.y_val, "x", checking | {"label": "held-out rows"}),
    ):
        if y.size:
            step = -(-y.size // _DRAWN)
            axes.plot(places(X[::step], y[::step]), heights(X[::step], y[::step]), mark, **options)
    axes.legend(frameon=False)


def _draw_predictions(model: Any) -> str:
    from problems.displays.canvas import ACCENT

    judged, target, inputs = model.judged_, _plain(model.preparation_.target), model.preparation_.inputs
    drawn, axes = _axes()
    if judged.X.shape[1] == 1:
        grid = np.linspace(judged.X.min(), judged.X.max(), 5 * _GRID)[:, None]

        def in_units(X: Array, y: Any = None) -> Array:
            return np.asarray(X[:, 0] * inputs[0].scale + inputs[0].center)

        axes.plot(in_units(grid), judged.machine.predict(grid), "-", color=ACCENT, linewidth=2.0, label="prediction")
        _rows_on(axes, model, in_units, lambda X, y: y)
        axes.set(xlabel=_plain(inputs[0].name), ylabel=target)
        return figure("Data and fit", "The curve is the prediction; crosses are held-out rows.", drawn)
    ends = [float(judged.y.min()), float(judged.y.max())]
    axes.plot(ends, ends, "--", color=ACCENT, linewidth=1.4)
    _rows_on(axes, model, lambda X, y: y, lambda X, y: judged.machine.predict(X))
    axes.set(xlabel=f"{target}, measured", ylabel=f"{target}, predicted")
    return figure("Predicted against measured", "Predictions on the dashed line are exact.", drawn)


def _draw_residuals(model: Any) -> str:
    predict = model.judged_.machine.predict
    drawn, axes = _axes()
    axes.axhline(0.0, color="0.35", linewidth=1.0)
    _rows_on(axes, model, lambda X, y: predict(X), lambda X, y: y - predict(X))
    axes.set(xlabel=f"{_plain(model.preparation_.target)}, predicted", ylabel="residual")
    caption = "Measured minus predicted, over the prediction. A pattern means that the model misses something."
    return figure("Residuals", caption, drawn)


def _draw_probabilities(model: Any) -> str:
    from sklearn.calibration import CalibrationDisplay

    judged = model.judged_
    classes = judged.machine.classes_
    drawn, axes = _axes()
    try:
        probabilities = judged.machine.predict_proba(judged.X_val)
    except SubstrateError as error:
        return paragraph(f"No probabilities: {error}.")
    for number in range(len(classes) == 2, min(len(classes), _CURVES)):
        options = {"n_bins": 5, "strategy": "quantile", "name": f"class {_plain(classes[number])}", "ax": axes}
        CalibrationDisplay.from_predictions(judged.y_val == classes[number], probabilities[:, number], **options)
    axes.set(xlabel="probability that is predicted", ylabel="share of rows")
    caption = "Held-out rows: how often a class occurs where its probability, by left-out training rows, is p."
    return figure("Probabilities", caption, drawn)


def _draw_importances(model: Any, importances: Any) -> str:
    from problems.displays.canvas import ACCENT

    shares, deviation = importance_shares(importances)
    order = np.argsort(shares, kind="stable")[-_BARS:]
    drawn, axes = _axes(1.3 + 0.32 * order.size)
    names = [_plain(model.preparation_.inputs[number].name) for number in order]
    axes.barh(names, 100.0 * shares[order], xerr=100.0 * deviation[order], color=ACCENT)
    axes.set_xlabel("% of the error that shuffling adds")
    caption = "The share of each input in the error that shuffling its values adds to left-out rows."
    return figure("Which inputs matter", caption, drawn)


def _draw_effect(model: Any, number: int) -> Iterator[str]:
    """Yield the picture of the average effect of a number over the training rows, the other inputs unchanged."""
    from sklearn.inspection import partial_dependence

    from problems.displays.canvas import ACCENT

    judged, entry = model.judged_, model.preparation_.inputs[number]
    if entry.categories is not None or model.quality_.classes:
        return
    column = model.preparation_.columns_of_inputs[number][0]
    rows = judged.X[:: -(-judged.y.size // (_DRAWN // 5))]
    options: dict[str, Any] = {"percentiles": (0.02, 0.98), "grid_resolution": _GRID, "kind": "average"}
    effect = partial_dependence(judged.machine, rows, [column], **options)
    drawn, axes = _axes()
    axes.plot(effect.grid_values[0] * entry.scale + entry.center, effect.average[0], color=ACCENT, linewidth=2.0)
    target = _plain(model.preparation_.target)
    axes.set(xlabel=_plain(entry.name), ylabel=f"{target}, mean prediction")
    caption = f"The mean prediction where {entry.name} has this value and the other inputs are as in the table."
    yield figure(f"What {entry.name} does", caption, drawn)
