"""The HTML of a machine that moves: a slider, the pictures it redraws, and the script, all inside one page."""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from problems.command_line.report.formulas import spoken
from problems.command_line.report.machine_paths import GammaPath, RhoPath, ZetaPath
from problems.command_line.report.moving import Moving, encode_numbers
from problems.command_line.report.page import paragraph
from problems.command_line.report.subject import Subject

__all__ = ["moving_html", "moving_section", "panels_of", "script", "script_policy"]

_SLOWLY = {
    "gamma": "Left, gamma is small and the machine is the mean of the target; right, it follows the rows closely.",
    "zeta": "Right, zeta is large and no row supports the machine; left, more and more rows do.",
    "rho": "Right, rho is large and all components vanish; left, every input varies freely.",
}


@cache
def script() -> str:
    """Return the script of the page, which ships as a file of its own."""
    return files("problems.command_line.report").joinpath("moving.js").read_text(encoding="utf-8")


def script_policy(text: str | None = None) -> str:
    """Return what a content security policy says of a script, that of this page unless given: it alone may run."""
    digest = base64.b64encode(hashlib.sha256((text or script()).encode("utf-8")).digest()).decode("ascii")
    return f"script-src 'sha256-{digest}'"


def _panel(title: str, caption: str, x: dict[str, Any], y: dict[str, Any], *marks: dict[str, Any]) -> dict[str, Any]:
    return {"title": title, "caption": caption, "x": x, "y": y, "marks": list(marks)}


def _mark(kind: str, x: Any = None, y: Any = None, style: str = "", on: Any = None) -> dict[str, Any]:
    mark = {"kind": kind, "x": x, "y": y, "style": style, "on": on}
    return {name: value for name, value in mark.items() if value not in (None, "")}


def panels_of(drawing: Moving, subject: Subject) -> list[dict[str, Any]]:
    """Return what is drawn, picture by picture, in terms of the names in ``made``."""
    path, target = drawing.path, "output" if subject.classes else subject.target
    fitted: Any = ["-", "y", ["per weight", "alpha"]] if isinstance(path, GammaPath) else "train"
    errors: Any = ["per weight", "alpha"] if isinstance(path, GammaPath) else ["-", "y", "train"]
    has_validation = "held" in drawing.vectors
    panels = []
    if drawing.inputs and not isinstance(path, RhoPath):
        alone = path.X.shape[1] == 1
        marks = [_mark("line", "grid#", "curve#", "model")]
        if alone:
            marks = [
                _mark("dot", "x#", "y"),
                *([_mark("cross", "x_held#", "y_held")] if has_validation else []),
                *marks,
            ]
        low, high = float(path.y.min()), float(path.y.max())
        room = 0.12 * (high - low) or 1.0
        title = "Data and fit" if alone else "Along one input, the others at their medians"
        caption = "Dots: training rows. Crosses: held-out rows. Line: the model." if alone else ""
        if subject.classes:
            caption += f" The class changes where the line crosses zero; +1 is {subject.plus}."
        y = {"label": target, "from": low - room, "to": high + room}
        panels.append(_panel(title, caption, {"label": "#"}, y, *marks))
    if path.X.shape[1] > 1 or not drawing.inputs:
        panels.append(_against(subject, fitted, has_validation, target))
    if isinstance(path, RhoPath) and drawing.inputs:
        band = [
            _mark("level", y=["largest", "part#"], style="bound"),
            _mark("level", y=["negative", ["largest", "part#"]], style="bound"),
        ]
        panels.append(
            _panel(
                "One component and its multipliers",
                "Line: the component of this input. Dashed: ± its maximal variation t. A row whose multiplier is not "
                "zero (large dots) lies on a dashed line: multiplier × slack = 0.",
                {"label": "#"},
                {"label": "component of #", "even": True},
                *band,
                _mark("dot", "x#", "part#", on="xi#"),
                _mark("line", "grid#", "curve#", "model"),
            )
        )
    if not subject.classes:
        validation_marks = [_mark("cross", "held", ["-", "y_held", "held"])] if has_validation else []
        caption = "Measured minus predicted, over the prediction. A pattern means that something is left to explain."
        zero = _mark("level", y=0, style="axis")
        x, y = {"label": f"{target}, predicted"}, {"label": "residual", "even": True}
        panels.append(_panel("Residuals", caption, x, y, zero, _mark("dot", fitted, errors), *validation_marks))
    if isinstance(path, GammaPath):
        caption = "Equalities only, so every row has one and none is slack: α = γ × its residual, whatever γ is."
        x = {"label": "#"} if path.X.shape[1] == 1 and drawing.inputs else {"label": f"{target}, predicted"}
        where = "x#" if path.X.shape[1] == 1 and drawing.inputs else fitted
        stems = _mark("stem", where, "alpha")
        panels.append(
            _panel("Multipliers", caption, x, {"label": "α × class" if subject.classes else "α", "even": True}, stems)
        )
    if isinstance(path, ZetaPath):
        panels.append(
            _panel(
                "Multipliers and their slack",
                "The pull of the errors on every row stays within ± ζ (dashed). A row supports the model (large dots) "
                "only where the pull has reached ζ: multiplier × slack = 0.",
                {"label": "#"} if drawing.inputs else {"label": f"{target}, predicted"},
                {"label": "pull on the row", "even": True},
                _mark("level", y="weight", style="bound"),
                _mark("level", y=["negative", "weight"], style="bound"),
                _mark("dot", "x#" if drawing.inputs else "train", "c", on="a"),
            )
        )
    panels.append(_errors(drawing))
    return panels


def _against(subject: Subject, fitted: Any, has_validation: bool, target: str) -> dict[str, Any]:
    """Draw predicted against measured."""
    validation_marks = [_mark("cross", "y_held", "held")] if has_validation else []
    caption = "Dots: training rows. Crosses: held-out rows. On the dashed line predictions are exact."
    if subject.classes:
        caption = f"Dots: training rows. Crosses: held-out rows. +1 is {subject.plus}; zero divides the classes."
    line = _mark("level", y=0, style="bound") if subject.classes else _mark("line", "ends", "ends", "bound")
    y = {"label": f"{target}, predicted"}
    x: dict[str, Any] = {"label": f"{target}, measured"}
    if subject.classes:
        x = {"label": "class", "from": -1.5, "to": 1.5}
    title = "Output by class" if subject.classes else "Predicted against measured"
    return _panel(title, caption, x, y, line, _mark("dot", "y", fitted), *validation_marks)


def _errors(drawing: Moving) -> dict[str, Any]:
    """Return the errors over the weight, with the place of the slider."""
    words = {"train": "thin: training rows", "held": "thick: held-out rows", "loo": "dotted: each row left out"}
    lines = [
        _mark("line", "stops", f"curve:{curve.name}", curve.drawn + "-line") for curve in drawing.curves if curve.drawn
    ]
    levels = [_mark("level", y=value, style="bound") for _, value in drawing.lines]
    caption = "; ".join(words[curve.drawn] for curve in drawing.curves if curve.drawn)
    if drawing.lines:
        name, value = drawing.lines[0]
        caption += f". Dashed: {name}, {value:.4g}: it is proved that no value of the range has less"
    position = _mark("here", "weight", style="here")
    x = {"label": spoken(drawing.path.parameter), "log": True}
    return _panel(
        "Error over the weight", f"{caption[0].upper()}{caption[1:]}.", x, {"label": "RMSE"}, *lines, *levels, position
    )


def moving_section(drawing: Moving, subject: Subject, still: str = "") -> str:
    """Return the slider and its pictures; ``still`` is HTML that is shown where no script runs."""
    return moving_html(
        drawing.numbers() | _describe(drawing, subject), drawing.notes, still, _SLOWLY[drawing.path.parameter]
    )


def _describe(drawing: Moving, subject: Subject) -> dict[str, Any]:
    curves = [
        {"name": curve.name, "values": encode_numbers(curve.values), "whole": curve.whole} for curve in drawing.curves
    ]
    return {
        "sign": spoken(drawing.path.parameter),
        "own": "the model's own",
        "stops": encode_numbers(drawing.stops),
        "start": drawing.start,
        "curves": curves,
        "inputs": [subject.features[k] for k in drawing.inputs] or [""],
        "panels": panels_of(drawing, subject),
    }


def moving_html(data: dict[str, Any], notes: Sequence[str], still: str, caption: str) -> str:
    """Return the slider, one picture for each panel, the numbers and the script."""
    sign, inputs = escape(data["sign"]), data["inputs"]
    choices = "".join(f'<option value="{k}">{escape(name)}</option>' for k, name in enumerate(inputs))
    select = (
        f'<span><label for="input">{escape(data.get("choose", "input"))}</label>'
        f'<select id="input">{choices}</select></span>'
        if len(inputs) > 1
        else ""
    )
    rows = "".join(
        f'<tr><th scope="row">{escape(row["name"])}</th><td class="number"></td></tr>' for row in data["curves"]
    )
    figures = "".join(
        f'<figure><h3>{escape(panel["title"])}</h3><svg id="panel-{k}" viewBox="0 0 480 320" role="img" '
        f'aria-label="{escape(panel["title"])}"></svg><figcaption>{escape(panel["caption"])}</figcaption></figure>'
        for k, panel in enumerate(data["panels"])
    )
    still_picture = f'<div id="still">{still}</div>' if still else ""
    without = "Without JavaScript the pictures stand still." if still else "This page needs JavaScript to draw."
    numbers = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":  # inside a script element nothing may look like a tag
        numbers = numbers.replace(letter, f"\\u{ord(letter):04x}")
    return (
        f'<div id="moving" hidden>{paragraph(caption) if caption else ""}'
        f'<div class="controls"><span class="slide"><label for="weight">{sign}</label>'
        f'<input type="range" id="weight" min="0" max="{_last(data)}" step="1" '
        f'value="{data["start"]}"></span><output id="weight-value" for="weight"></output>'
        f'<button type="button" id="own">back to {escape(data["own"])}</button>{select}</div>'
        f'<table class="curves"><tbody id="curves">{rows}</tbody></table><div class="panels">{figures}</div>'
        f"{''.join(paragraph(note) for note in notes)}</div>{still_picture}<noscript>{paragraph(without)}</noscript>"
        f'<script type="application/json" id="numbers">{numbers}</script><script>{script()}</script>'
    )


def _last(data: dict[str, Any]) -> int:
    return len(base64.b64decode(data["stops"])) // 8 - 1
