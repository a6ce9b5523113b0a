"""The report of ``substrate fit`` on one page: how good, how sure, by which inputs, is it solved; and how to use it."""

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import substrate
from problems.command_line.page import answers, bullets, code, figure, folded, page, paragraph, section, table
from problems.command_line.summary import digits, important, is_reliable, kernel_name
from problems.command_line.words import in_shell
from problems.tables.machines import CRITERION_WORDS
from problems.tables.predictions import interval_ends
from problems.tables.quality import training_quality
from substrate.arrays import Array
from substrate.errors import SubstrateError

__all__ = ["report"]

#: The share of new targets that the intervals of the first screen hold.
_COVERAGE = 0.9
#: Most inputs named, classes with a curve, bars, and points of a curve.
_NAMED, _CURVES, _BARS, _GRID = 5, 6, 20, 400
#: The problem that every machine solves, in a form that browsers typeset.
_PROBLEM = (
    '<math display="block"><munder><mi>min</mi><mrow><mi>f</mi><mo>,</mo><mi>b</mi></mrow></munder>'
    "<mrow><mfrac><mn>1</mn><mn>2</mn></mfrac><msup><mrow><mo>‖</mo><mi>f</mi><mo>‖</mo></mrow><mn>2</mn></msup>"
    "<mo>+</mo><mfrac><mi>γ</mi><mn>2</mn></mfrac><munder><mo>∑</mo><mi>i</mi></munder>"
    "<msup><mrow><mo>(</mo><msub><mi>y</mi><mi>i</mi></msub><mo>−</mo><mi>f</mi><mo>(</mo><msub><mi>x</mi><mi>i</mi>"
    "</msub><mo>)</mo><mo>−</mo><mi>b</mi><mo>)</mo></mrow><mn>2</mn></msup></mrow></math>"
)
_WORDS = {
    "stack": "The prediction is a weighted mean of machines, each of which solves",
    "lssvm": "The machine is a least-squares support vector machine, which solves",
    "sparse": "The function is a combination of few kernel functions, the basis vectors, and solves",
}
_CERTIFICATE = (
    "The first line bounds how far the fitted values can be from those of the exact optimum, in units of the target. "
    "Each further line is an equation that the exact optimum satisfies: its residual, recomputed from the data, has to "
    "be as small as rounding makes it. The gap of a chosen weight has to be as small as requested."
)

#: A question, the answer in few words, a sentence, and how it is marked.
_Answer = tuple[str, str, str, str]


def report(model: Any, why: str, path: str | None, importances: Any) -> str:
    """Return the page as text; ``path`` is the file of the model, if there is one."""
    preparation, judged = model.preparation_, model.judged_
    facts = map(in_shell, [why, *model.remarks_[1:]])
    warned = bullets(map(in_shell, judged.warnings)) if judged.warnings else paragraph("None were raised.")
    sections = [
        answers([_good(model), _sure(model), _inputs_that_matter(model, importances), _solved(model)]),
        bullets(f"{fact[0].upper()}{fact[1:]}." for fact in facts),
        _errors(model),
        section("Pictures", *_pictures(model, importances)),
        _inputs(model, importances),
        _fitted(model),
        _certificate(model),
        section("Warnings", warned),
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
    if quality.confusion is not None:
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
        if model.quality_.confusion is not None:
            confidence = float(np.mean(machine.predict_proba(X).max(axis=1)))
            right = float(np.mean(machine.predict(X) == y))
            more = (
                f"This is its own probability of being right; {right:.1%} of these rows are. The nearer the two, the "
            )
            return question, f"{confidence:.1%} on average", f"{more}more its probabilities can be trusted.", ""
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
        return question, f"{len(names)} inputs", f"All enter the kernel: {_list_names(names)}.", ""
    order = important(importances)
    if not order:
        return question, "None is seen to", "Shuffling the values of an input makes left-out rows no worse.", ""
    how = "rows left out are predicted worse when the values of these inputs are shuffled; the most important first"
    return question, _list_names([names[k] for k in order]), f"{len(order)} of {len(names)} inputs: {how}.", ""


def _list_names(names: list[str]) -> str:
    listed = ", ".join(names[:_NAMED])
    return f"{listed} and {len(names) - _NAMED} more" if len(names) > _NAMED else listed


def _solved(model: Any) -> _Answer:
    question, certificate = "Is it solved?", model.judged_.machine.certificate_
    promise = _capitalise(certificate.promise)
    if certificate.holds:
        more = f"{promise}. All {len(certificate.rows)} checks of the solution pass."
        return question, "Yes, the certificate holds", more, "holds"
    failed = ", ".join(row.name for row in certificate.failures)
    if is_reliable(certificate, model.quality_):
        return question, "Yes", f"Known well enough for errors of this size. {promise}. Not proved: {failed}.", "holds"
    more = f"Failed: {failed}. Do not rely on this model. {promise}."
    return question, "No, the certificate does not hold", more, "fails"


def _n(value: float) -> str:
    return "none" if np.isnan(value) else digits(value)


def _errors(model: Any) -> str:
    judged, quality = model.judged_, model.quality_
    inside = training_quality(judged.machine, judged.X, judged.y).measures
    head = ("measure", "training rows", quality.rows, f"baseline\n{quality.baseline}")
    rows = [
        [measure.name, _n(of_training.value), _n(measure.value), _n(measure.baseline)]
        for measure, of_training in zip(quality.measures, inside, strict=True)
    ]
    elements = [table(head, rows)]
    if quality.confusion is not None:
        counts, classes = quality.confusion.counts.tolist(), quality.confusion.classes
        elements.append(paragraph("Rows by their class (down) and the predicted one (across):"))
        lines = [[label, *map(str, row)] for label, row in zip(classes, counts, strict=True)]
        elements.append(table(["class", *(f"as {label}" for label in classes)], lines))
    return section("Errors", *elements)


def _inputs(model: Any, importances: Any) -> str:
    standardized = "Each input x enters as (x - centre) / scale; a category as 1 where it is the row's and 0 elsewhere."
    words = [standardized if model.preparation_.standardize else "Inputs enter as they are."]
    head = ["input", "centre", "scale"]
    if importances is not None:
        head.append("importance")
        how = "grows" if "error" in importances.score else "falls"
        words.append(f"Importance: how much the {importances.score} of left-out rows {how} when an input is shuffled.")
    rows = []
    for number, entry in enumerate(model.preparation_.inputs):
        for feature in entry.features:
            row = [feature, f"{entry.center:.4g}", f"{entry.scale:.4g}"]
            if importances is not None:
                mean, deviation = importances.importances_mean[number], importances.importances_std[number]
                row.append(f"{mean:.3g} ± {deviation:.1g}" if feature == entry.features[0] else "")
            rows.append(row)
    return section("Inputs", *map(paragraph, words), table(head, rows))


def _fitted(model: Any) -> str:
    machine, search = model.judged_.machine, model.judged_.search
    elements = [paragraph(f"{_WORDS[search.model]}:"), _PROBLEM]
    if model.quality_.confusion is not None:
        elements.append(paragraph("Classes are coded as y = -1 and +1; of more than two, each has such a machine."))
    if search.model == "stack":
        u, members = machine.stack_weights_, machine.estimators_
        order = [int(m) for m in np.argsort(-u, kind="stable") if u[m] > 0.0]
        rows = [[kernel_name(members[m].kernel_), f"{members[m].gamma:.3g}", f"{u[m]:.3g}"] for m in order]
        elements.append(table(("kernel", "gamma", "weight"), rows))
        return section("What was fitted", *elements)
    gamma = float(np.ravel(getattr(machine, "gamma_", machine.gamma))[0])
    rule = "was given" if search.gamma is not None else f"was chosen by {CRITERION_WORDS[search.criterion]} error"
    elements.append(paragraph(f"The kernel is {kernel_name(machine.kernel_)}; γ = {gamma:.4g} {rule}."))
    bound = float(np.mean(getattr(machine, "criterion_lower_bound_", -np.inf)))
    if np.isfinite(bound):
        reached = float(np.mean(machine.criterion_))
        words = (
            f"Its mean squared {CRITERION_WORDS[search.criterion]} error is {reached:.6g}; it is proved that no other"
        )
        elements.append(
            paragraph(f"{words} γ of the range searched, with any kernel tried, has less than {bound:.6g}.")
        )
    return section("What was fitted", *elements)


def _certificate(model: Any) -> str:
    certificate = model.judged_.machine.certificate_
    head = ("check", "pass", "residual / scale", "allowed")
    rows = [
        [f"{row.name}\n{row.formula}", "yes" if row.passes else "NO", f"{row.relative:.1e}", f"{row.tolerance:.1e}"]
        for row in certificate.rows
    ]
    outcome = f"{certificate.title}: {'holds' if certificate.holds else 'does not hold'}; {certificate.promise}."
    facts = bullets(f"{name}: {fact}" for name, fact in certificate.record)
    checks = folded("All checks", paragraph(_CERTIFICATE), table(head, rows, 2), facts)
    return section("Certificate", paragraph(outcome), checks)


def _use(path: str | None) -> str:
    if path is None:
        return section("Use it", paragraph("The model was not kept: fit again with --out model.npz to predict by it."))
    name = Path(path).name
    python = f'import problems\n\nmodel = problems.load({name!r})\nprint(model.predict("new.csv"))'
    shell = f"substrate predict {name} new.csv --out predictions.csv"
    return section("Use it", paragraph("At the prompt:"), code(shell), paragraph("In Python:"), code(python))


def _pictures(model: Any, importances: Any) -> Iterator[str]:
    """Yield the pictures of a fit; without matplotlib one sentence that says so."""
    try:
        import matplotlib
    except ImportError:
        yield paragraph('No pictures: matplotlib is not installed, pip install "lssvm-substrate[tables]"')
        return
    matplotlib.use("agg")  # files only: no window, no display needed
    from problems.displays import CriterionDisplay

    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "report", "font.size": 10.0}):
        machine, judged = model.judged_.machine, model.judged_
        if model.quality_.confusion is None:
            yield _draw_predictions(model)
            yield _draw_residuals(model)
        elif judged.y_val.size:
            yield _draw_probabilities(model)
        if importances is not None:
            yield _draw_importances(model, importances)
        if np.isfinite(getattr(machine, "criterion_lower_bound_", np.nan)) and hasattr(machine, "gamma_"):
            caption = "The error by which gamma was chosen, with the chosen kernel; the dashed line is the lower bound."
            yield figure("The choice of gamma", caption, CriterionDisplay.from_estimator(machine).figure_)


def _plain(text: object) -> str:
    """Return text in which matplotlib does not find formulas."""
    return str(text).replace("$", r"\$")


def _rows_on(axes: Any, model: Any, places: Any, heights: Any) -> None:
    """Draw the training rows and those held out, by what functions make of their inputs and targets."""
    from problems.displays.canvas import GREY

    judged = model.judged_
    training, held = {"color": GREY, "markersize": 4.0}, {"color": "black", "markersize": 5.0}
    axes.plot(places(judged.X, judged.y), heights(judged.X, judged.y), "o", label="training rows", **training)
    if judged.y_val.size:
        X, y = judged.X_val, judged.y_val
        axes.plot(places(X, y), heights(X, y), "x", label="held-out rows", **held)
    axes.legend(frameon=False, fontsize="small")


def _draw_predictions(model: Any) -> str:
    from problems.displays.canvas import ACCENT, axes_for

    judged, target, inputs = model.judged_, _plain(model.preparation_.target), model.preparation_.inputs
    drawn, (axes,) = axes_for(None)
    if judged.X.shape[1] == 1:
        grid = np.linspace(judged.X.min(), judged.X.max(), _GRID)[:, None]

        def in_units(X: Array, y: Any = None) -> Array:
            return np.asarray(X[:, 0] * inputs[0].scale + inputs[0].center)

        axes.plot(in_units(grid), judged.machine.predict(grid), "-", color=ACCENT, linewidth=2.0, label="f")
        _rows_on(axes, model, in_units, lambda X, y: y)
        axes.set(xlabel=_plain(inputs[0].name), ylabel=target)
        return figure("Data and fit", "The curve is f; crosses are held-out rows.", drawn)
    ends = [float(judged.y.min()), float(judged.y.max())]
    axes.plot(ends, ends, "--", color=ACCENT, linewidth=1.4)
    _rows_on(axes, model, lambda X, y: y, lambda X, y: judged.machine.predict(X))
    axes.set(xlabel=f"{target}, measured", ylabel=f"{target}, predicted")
    return figure("Predicted against measured", "Predictions on the dashed line are exact.", drawn)


def _draw_residuals(model: Any) -> str:
    from problems.displays.canvas import axes_for

    predict = model.judged_.machine.predict
    drawn, (axes,) = axes_for(None)
    axes.axhline(0.0, color="0.35", linewidth=1.0)
    _rows_on(axes, model, lambda X, y: predict(X), lambda X, y: y - predict(X))
    axes.set(xlabel=f"{_plain(model.preparation_.target)}, predicted", ylabel="residual")
    caption = "Measured minus predicted, over the prediction. A pattern means that something is left to explain."
    return figure("Residuals", caption, drawn)


def _draw_probabilities(model: Any) -> str:
    from sklearn.calibration import CalibrationDisplay

    from problems.displays.canvas import axes_for

    judged = model.judged_
    classes = judged.machine.classes_
    drawn, (axes,) = axes_for(None)
    try:
        probabilities = judged.machine.predict_proba(judged.X_val)
    except SubstrateError as error:
        return paragraph(f"No probabilities: {error}.")
    for number in range(len(classes) == 2, min(len(classes), _CURVES)):
        options = {"n_bins": 5, "strategy": "quantile", "name": f"class {_plain(classes[number])}", "ax": axes}
        CalibrationDisplay.from_predictions(judged.y_val == classes[number], probabilities[:, number], **options)
    caption = "Held-out rows: how often a class occurs where its probability, by left-out training rows, is p."
    return figure("Probabilities", caption, drawn)


def _draw_importances(model: Any, importances: Any) -> str:
    from problems.displays.canvas import ACCENT, axes_for

    mean, deviation = importances.importances_mean, importances.importances_std
    order = np.argsort(mean, kind="stable")[-_BARS:]
    drawn, (axes,) = axes_for(None, size=(6.4, 1.3 + 0.32 * order.size))
    names = [_plain(model.preparation_.inputs[number].name) for number in order]
    axes.barh(names, mean[order], xerr=deviation[order], color=ACCENT)
    axes.set_xlabel(f"change of the {importances.score}")
    caption = "How much worse left-out rows are predicted when the values of an input are shuffled."
    return figure("Which inputs matter", caption, drawn)
