"""The pictures of a report: the displays of the package, inputs in their own units, as images inside the page.

An image follows the reader's system: every colour of it has a second one for a dark background, of the same hue.
"""

import base64
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from problems.command_line.report.page import Picture, both_themes
from problems.displays import (
    CertificateDisplay,
    ComponentFunctionsDisplay,
    CriterionDisplay,
    EvolutionDiagramDisplay,
    ResidualsDisplay,
    SupportVectorsDisplay,
)
from problems.displays.canvas import ACCENT, GREY, axes_for
from problems.estimators.chosen.stacked import StackIntervals
from problems.estimators.full.nested import NestedIntervals
from problems.estimators.shared.components import is_additive
from problems.estimators.shared.importance import LeftOutImportance
from problems.estimators.shared.intervals import LeftOutIntervals
from problems.estimators.shared.model import has_part
from problems.tables.fit import Fit
from problems.tables.preparation import Input
from substrate.arrays import Array
from substrate.errors import SubstrateError

__all__ = [
    "COVERAGES",
    "Canvas",
    "PicturePlan",
    "draw_plans",
    "measure_coverage",
    "pictures",
    "title_of",
]

_GRID = 400
#: Coverages at which held-out rows are counted.
COVERAGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
#: Standard errors that chance explains, at any of the coverages.
_CHANCE = 2.5
#: Most components drawn, classes with a curve, and bars.
_COMPONENTS, _CURVES, _BARS = 12, 6, 20


class PicturePlan(NamedTuple):
    """A picture before it is drawn."""

    title: str
    caption: str
    draw: Callable[[], Any]
    small: bool = False


def pictures(fit: Fit, importances: LeftOutImportance | None = None) -> list[Picture]:
    """Return what can be drawn of a fit; without matplotlib one entry that says so."""
    return draw_plans(_all(fit, importances))


def draw_plans(planned: Iterable[PicturePlan | Picture]) -> list[Picture]:
    """Return the pictures of a page, drawn where they are plans; without matplotlib one entry that says so."""
    try:
        import matplotlib
    except ImportError:
        reason = 'matplotlib is not installed: pip install "lssvm-substrate[plot]", then fit again.'
        return [Picture("No pictures", reason, "")]
    matplotlib.use("agg")  # files only: no window, no display needed
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "report", "font.size": 10.0}):
        return [picture if isinstance(picture, Picture) else _draw(picture) for picture in planned]


def _all(fit: Fit, importances: LeftOutImportance | None) -> Iterator[PicturePlan | Picture]:
    model, task = fit.model.estimator, fit.preparation.task
    n_inputs = fit.X.shape[1]
    names = _names(fit)
    target = _plain(fit.preparation.target)
    if task == "classification" and n_inputs == 2 and len(model.classes_) == 2:
        caption = "Where the output changes sign the class changes. Rings mark the rows that support the machine."
        yield PicturePlan("Classes and their border", caption, lambda: _plane(fit))
    if task == "classification" and fit.y_val.size:
        caption = "Held-out rows: how often a class occurs where its probability, of left-out training rows, is p."
        yield PicturePlan("Probabilities", caption, lambda: _classes(fit))
    if task == "regression" and n_inputs == 1:
        caption = "The curve is f; crosses are held-out rows."
        yield PicturePlan("Data and fit", caption, lambda: _curve(fit))
    elif task == "regression":
        caption = "Predictions on the dashed line are exact."
        yield PicturePlan("Predicted against measured", caption, lambda: _against(fit))
    if task == "regression":
        caption = "Measured minus predicted, over the prediction. A pattern means that something is left to explain."
        yield PicturePlan("Residuals", caption, lambda: _residuals(fit))
        leaves_out = has_part(model, LeftOutIntervals) and hasattr(model, "ridge_")
        if fit.y_val.size and (leaves_out or has_part(model, StackIntervals)):
            shares = measure_coverage(fit)
            caption = (
                "Calibration: the share of held-out rows inside prediction intervals, over the share that was asked "
                f"for. Intervals are made by leaving single training rows out{_beside_saved(fit)}; held-out rows did "
                "not make them."
            )
            yield PicturePlan(title_of(shares, fit.y_val.size), caption, lambda: _coverages(fit, shares))
    if importances is not None:
        caption = "How much worse left-out rows are predicted when the values of an input are shuffled."
        yield PicturePlan("Which inputs matter", caption, lambda: _importances(fit, importances))
    if "maximal_variation" in getattr(model, "path_", ()):
        caption = "How much each component varies as rho grows, and the held-out error along the same path."
        yield PicturePlan(
            "Which inputs stay",
            caption,
            lambda: EvolutionDiagramDisplay.from_estimator(model, names=names, target=target),
        )
    if hasattr(model, "zeta_") and fit.choices.model == "l1":
        caption = "The dashed line is the lower bound."
        yield PicturePlan("Held-out error over zeta", caption, lambda: _validation(fit))
    if is_additive(model):
        yield from _components(fit)
    if fit.choices.model in ("lssvm", "fused") and fit.choices.weights.gamma is None:
        caption = "The error by which gamma was chosen, with the chosen kernel; the dashed line is the lower bound."
        yield PicturePlan("The choice of gamma", caption, lambda: CriterionDisplay.from_estimator(model))
    if fit.choices.model == "robust":
        caption = "Errors in units of their robust scale, before and after weighting, and the weight of every row."
        yield PicturePlan("Errors and weights", caption, lambda: ResidualsDisplay.from_estimator(model, fit.X, fit.y))
    caption = "One bar per check: left of zero it passes, and the length shows by how many powers of ten."
    yield PicturePlan("The certificate", caption, lambda: CertificateDisplay.from_certificate(model.certificate_))


def _draw(plan: PicturePlan) -> Picture:
    """Return a display as an image, or the reason why there is none."""
    import matplotlib.pyplot as plt

    before = set(plt.get_fignums())
    try:
        figure = plan.draw().figure_
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    except SubstrateError as error:
        return Picture(plan.title, f"Not drawn: {error}", "")
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)
    code = base64.b64encode(both_themes(buffer.getvalue().decode("utf-8")).encode("utf-8")).decode("ascii")
    return Picture(
        title=plan.title,
        caption=plan.caption,
        address=f"data:image/svg+xml;base64,{code}",
        small=plan.small,
    )


@dataclass(frozen=True, slots=True)
class Canvas:
    """A figure drawn here, with the interface of a display."""

    figure_: Any


def _plain(text: object) -> str:
    """Return text in which matplotlib does not find formulas."""
    return str(text).replace("$", r"\$")


def _names(fit: Fit) -> list[str]:
    return [_plain(name) for name in fit.preparation.features]


def _numeric_inputs(fit: Fit) -> list[Input]:
    """Return the input of every column of X; a category's column is in its own units already."""
    return [
        input_ if input_.categories is None else Input(f) for input_ in fit.preparation.inputs for f in input_.features
    ]


def _own_units(fit: Fit, column: int, values: Array) -> Array:
    input_ = _numeric_inputs(fit)[column]
    return np.asarray(values * input_.scale + input_.center)


def _curve(fit: Fit) -> Canvas:
    figure, (axes,) = axes_for(None)
    grid = np.linspace(fit.X.min(), fit.X.max(), _GRID)
    axes.plot(_own_units(fit, 0, fit.X[:, 0]), fit.y, "o", color=GREY, markersize=4, label="training rows")
    if fit.y_val.size:
        validation_points = _own_units(fit, 0, fit.X_val[:, 0])
        axes.plot(validation_points, fit.y_val, "x", color="black", markersize=5, label="held-out rows")
    predicted = fit.model.estimator.predict(grid[:, None])
    axes.plot(_own_units(fit, 0, grid), predicted, "-", color=ACCENT, linewidth=2.0, label="f")
    axes.set(xlabel=_names(fit)[0], ylabel=_plain(fit.preparation.target))
    axes.legend(frameon=False, fontsize="small")
    return Canvas(figure)


def _against(fit: Fit) -> Canvas:
    figure, (axes,) = axes_for(None)
    predict = fit.model.estimator.predict
    axes.plot(fit.y, predict(fit.X), "o", color=GREY, markersize=4, label="training rows")
    if fit.y_val.size:
        axes.plot(fit.y_val, predict(fit.X_val), "x", color="black", markersize=5, label="held-out rows")
    ends = [float(fit.y.min()), float(fit.y.max())]
    axes.plot(ends, ends, "--", color=ACCENT, linewidth=1.4)
    target = _plain(fit.preparation.target)
    axes.set(xlabel=f"{target}, measured", ylabel=f"{target}, predicted")
    axes.legend(frameon=False, fontsize="small")
    return Canvas(figure)


def _residuals(fit: Fit) -> Canvas:
    figure, (axes,) = axes_for(None)
    inside = fit.model.estimator.predict(fit.X)
    axes.axhline(0.0, color="0.35", linewidth=1.0)
    axes.plot(inside, fit.y - inside, "o", color=GREY, markersize=4, label="training rows")
    if fit.y_val.size:
        outside = fit.model.estimator.predict(fit.X_val)
        axes.plot(outside, fit.y_val - outside, "x", color="black", markersize=5, label="held-out rows")
    target = _plain(fit.preparation.target)
    axes.set(xlabel=f"{target}, predicted", ylabel="residual")
    axes.legend(frameon=False, fontsize="small")
    return Canvas(figure)


def title_of(shares: list[float], n_rows: int) -> str:
    """Return whether the shares of rows inside are as large as promised, up to errors of chance of so many rows."""
    promised = np.array(COVERAGES)
    errors = (promised - shares) / np.sqrt(promised * (1.0 - promised) / n_rows)
    worst = int(np.argmax(errors))
    if errors[worst] <= _CHANCE:
        return "Intervals that hold what they promise"
    share, coverage = shares[worst], COVERAGES[worst]
    return f"Intervals that hold less than they promise: {share:.0%} of rows where {coverage:.0%} were asked for"


def _coverages(fit: Fit, shares: list[float]) -> Canvas:
    figure, (axes,) = axes_for(None)
    axes.plot([0.0, 1.0], [0.0, 1.0], "--", color="0.35", linewidth=1.2, label="as promised")
    axes.plot(COVERAGES, shares, "o-", color=ACCENT, markersize=5, label=f"{fit.y_val.size} held-out rows")
    axes.set(xlabel="coverage asked for", ylabel="share of held-out rows inside", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False, fontsize="small")
    return Canvas(figure)


def measure_coverage(fit: Fit) -> list[float]:
    """Return the share of held-out rows inside intervals of the training rows, at each of ``COVERAGES``."""
    sides = [ends.T for ends in _left_out_ends(fit, COVERAGES)]
    return [float(np.mean((low <= fit.y_val) & (fit.y_val <= high))) for low, high in sides]


def _left_out_ends(fit: Fit, coverages: Sequence[float]) -> list[Array]:
    """Return intervals of the held-out rows by leaving single training rows out, which repeats no search."""
    model = fit.model.estimator
    if has_part(model, StackIntervals):
        ends: list[Array] = model._intervals.left_out_ends(model._new_points(fit.X_val), coverages)
        return ends
    method = model._intervals.left_out_method()
    return [np.asarray(model.predict_interval(fit.X_val, coverage, method)) for coverage in coverages]


def _beside_saved(fit: Fit) -> str:
    """Return how intervals of the saved model differ from those that are judged, if they do."""
    saved = fit.saved.estimator
    is_nested = has_part(saved, NestedIntervals) and saved._intervals.resolve("auto") == "nested"
    return " (those of the saved model repeat the search in folds, method nested)" if is_nested else ""


def _plane(fit: Fit) -> Any:
    names = _names(fit)
    drawn = SupportVectorsDisplay.from_estimator(fit.model.estimator, fit.X, fit.y, names=names)
    grid = tuple(_own_units(fit, column, coordinate) for column, coordinate in enumerate(drawn.grid))
    X = np.stack([_own_units(fit, column, fit.X[:, column]) for column in range(2)], axis=1)
    classes = [_plain(label) for label in fit.model.estimator.classes_]
    return replace(drawn, X=X, grid=grid, classes=classes).plot()


def _classes(fit: Fit) -> Canvas:
    from sklearn.calibration import CalibrationDisplay

    model = fit.model.estimator
    figure, (axes,) = axes_for(None)
    probabilities = model.predict_proba(fit.X_val)
    for number, label in list(enumerate(model.classes_))[len(model.classes_) == 2 :][:_CURVES]:
        options = {"n_bins": 5, "strategy": "quantile", "name": f"class {_plain(label)}", "ax": axes}
        CalibrationDisplay.from_predictions(fit.y_val == label, probabilities[:, number], **options)
    return Canvas(figure)


def _importances(fit: Fit, importances: LeftOutImportance) -> Canvas:
    order = np.argsort(importances.importances_mean, kind="stable")[-_BARS:]
    names = [_plain(fit.preparation.inputs[number].name) for number in order]
    figure, (axes,) = axes_for(None, size=(6.4, 1.3 + 0.32 * order.size))
    axes.barh(names, importances.importances_mean[order], xerr=importances.importances_std[order], color=ACCENT)
    axes.set_xlabel(f"change of the {importances.score}")
    return Canvas(figure)


def _validation(fit: Fit) -> Canvas:
    model = fit.model.estimator
    values, errors = (np.asarray(model.path_[name]) for name in ("values", "criterion"))
    figure, (axes,) = axes_for(None)
    axes.plot(values[values > 0.0], errors[values > 0.0], "-", color="black", linewidth=1.4, label="held-out rows")
    place = f"chosen: zeta = {model.zeta_:.4g}, {model.n_support_} support vectors"
    axes.plot([model.zeta_], [model.criterion_], "o", color=ACCENT, markersize=8, label=place)
    axes.axhline(model.criterion_lower_bound_, color="0.35", linestyle="--", linewidth=1.2, label="lower bound")
    axes.set(xscale="log", xlabel="zeta (weight of the 1-norm)", ylabel="mean squared error, held-out rows")
    axes.legend(frameon=False, fontsize="small")
    return Canvas(figure)


def _components(fit: Fit) -> Iterator[PicturePlan | Picture]:
    """Yield one small picture per component that matters, all with the same vertical axis."""
    model, target = fit.model.estimator, _plain(fit.preparation.target)
    variation = np.atleast_2d(model.maximal_variation_).max(axis=0)
    mask = model.get_support()  # one component per input
    chosen = [int(k) for k in np.argsort(-variation, kind="stable") if mask[k]]
    names = _names(fit)
    drawn = [_component(fit, model, number, names, target) for number in chosen[:_COMPONENTS]]
    if not drawn:
        yield Picture("Component functions", "Not drawn: no component varies.", "")
        return
    heights = [np.concatenate([component.curve, _or_empty(component.partial_residuals)]) for component in drawn]
    low, high = min(map(np.nanmin, heights)), max(map(np.nanmax, heights))
    room = 0.05 * float(high - low)
    for number, shown_component in enumerate(drawn):

        def draw(component: Any = shown_component) -> Any:
            display = ComponentFunctionsDisplay((component,), target).plot()
            display.axes_[0].set_ylim(low - room, high + room)
            for legend in (display.axes_[0].get_legend(), *display.figure_.legends):
                if legend is not None:
                    legend.remove()  # small pictures: the caption explains it
            return display

        caption = "The curve is the component, the points what the others leave of the target." if number == 0 else ""
        name = fit.preparation.features[chosen[number]]
        yield PicturePlan(f"Component of {name}", caption, draw, small=True)


def _component(fit: Fit, model: Any, number: int, names: list[str], target: str) -> Any:
    import matplotlib.pyplot as plt

    display = ComponentFunctionsDisplay.from_estimator(model, fit.X, fit.y, [number], names=names, target=target)
    plt.close(display.figure_)
    (component,) = display.components
    return replace(
        component, grid=_own_units(fit, number, component.grid), places=_own_units(fit, number, component.places)
    )


def _or_empty(values: Array | None) -> Array:
    return np.zeros(0) if values is None else values
