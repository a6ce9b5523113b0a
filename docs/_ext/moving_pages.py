r"""Pages that move, made when the documentation is built: ``python docs/_ext/moving_pages.py FOLDER`` makes them alone.

The third is [Pelckmans2005]_ (29) on two training points with the kernel matrix I, targets (1, -1) and one validation
point with the kernel row (2, 0) and the target 4. With :math:`\alpha = (a, -a)` and a weight c of the penalty it is

.. math:: \min_{a, t, \rho} \; (4 - 2a)^2 + c \, (2a^2 - 2a + \rho t) \quad \text{s.t.} \quad
   t \ge |a|, \;\; \rho \ge 2 |a - 1| ,

and the penalty is zero only for a trained machine, :math:`a = \max(1 - \rho/2, 0)`. For a fixed rho the best a is
:math:`(16 + 2c - c\rho) / (8 + 4c)`, or the nearest end of :math:`1 \pm \rho/2`: linear in rho, piece by piece.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from problems import FusedMaximalVariationRegressor
from problems.command_line.explore import moving_document
from problems.command_line.report.moving import encode_numbers
from problems.command_line.report.moving_page import moving_html, script_policy
from problems.command_line.report.page import page, paragraph
from problems.command_line.report.subject import Subject
from problems.tables.fit import Choices, fit_table
from problems.tables.table import read_table
from substrate.datasets import additive_function

__all__ = ["fuse_at", "not_convex", "pages", "penalty", "train"]

WEIGHTS = (1.0, 1.5, 2.0, 4.0)


def train(rho: Any) -> Any:
    """Return a of the machine that is trained at rho, the constraint of (28)."""
    return np.maximum(1.0 - np.asarray(rho) / 2.0, 0.0)


def fuse_at(rho: Any, weight: float) -> Any:
    """Return a of (29) at a fixed rho."""
    rho = np.asarray(rho)
    inner = (16.0 + 2.0 * weight - weight * rho) / (8.0 + 4.0 * weight)
    return np.clip(inner, np.maximum(1.0 - rho / 2.0, 0.0), 1.0 + rho / 2.0)


def penalty(a: Any, rho: Any) -> Any:
    """Return the sum of all products of a multiplier and its slack, at t = |a|."""
    return 2.0 * a * a - 2.0 * a + rho * np.abs(a)


def error(a: Any) -> Any:
    """Return the squared error on the validation point."""
    return (4.0 - 2.0 * a) ** 2


def _equation(number: str, *parts: str) -> str:
    """Return an equation in MathML, a line of which may end between its parts, with its number in the paper."""
    pieces = " ".join(part if part.startswith("<") else f"<math><mrow>{_math(part)}</mrow></math>" for part in parts)
    return f'<p class="equation">({number}) {pieces}</p>'


def _math(text: str) -> str:
    """Return letters, signs and words, separated by spaces, as MathML; ``a_b^c`` has b lowered and c raised."""
    made = []
    for word in text.split():
        base, _, power = word.partition("^")
        base, _, index = base.partition("_")
        tag = "mi" if base[0].isalpha() else "mn" if base.isdigit() else "mo"
        opened = 'mo stretchy="false"' if tag == "mo" else tag
        letter = f"<{opened}>{base}</{tag}>"
        marks = "".join(f"<mtext>{mark}</mtext>" for mark in (index, power) if mark)
        name = {(True, True): "msubsup", (True, False): "msub", (False, True): "msup"}.get((bool(index), bool(power)))
        made.append(f"<{name}>{letter}{marks}</{name}>" if name else letter)
    return "".join(made)


#: (28), (29) and (27), corrected: (27a) with the component matrices, (27b) for every component.
_EQUATIONS = "".join(
    (
        _equation("28", "min_ρ,t,α,ξ", "‖ y^v − Ω^v α ‖^2", "<span>subject to (27a) to (27f),</span>"),
        _equation(
            "29",
            "min_ρ,t,α,ξ",
            "‖ y^v − Ω^v α ‖^2",
            "+ ω ∑_l ( ξ^−lT ( t_l 1 + Ω^l α )",
            "+ ξ^+lT ( t_l 1 − Ω^l α ) )",
            "<span>subject to (27a) to (27d), where</span>",
        ),
        _equation("27a", "Ω^T ( Ω α − y ) =", "∑_l Ω^lT ( ξ^−l − ξ^+l ) ,"),
        _equation("27b", "1^T ( ξ^−l + ξ^+l ) = ρ", "<span>for every l,</span>"),
        _equation("27c", "ξ^−l ≥ 0 , ξ^+l ≥ 0 ,"),
        _equation("27d", "− t_l 1 ≤ Ω^l α ≤ t_l 1 ,"),
        _equation("27e", "ξ_i^−l ( t_l + Ω_i^l α ) = 0 ,"),
        _equation("27f", "ξ_i^+l ( t_l − Ω_i^l α ) = 0", "<span>for every row i and every l.</span>"),
    )
)


def not_convex() -> str:
    """Return the page of (29)."""
    knots = {0.0, 2.0, 3.0, *((8.0 - 2.0 * c) / (4.0 + 3.0 * c) for c in WEIGHTS)}
    stops = np.unique(np.concatenate([np.linspace(0.0, 3.0, 121), [*knots]]))
    machines = np.column_stack([train(stops), *(fuse_at(stops, c) for c in WEIGHTS)])
    values = [error(machines[:, k + 1]) + c * penalty(machines[:, k + 1], stops) for k, c in enumerate(WEIGHTS)]
    share = np.linspace(0.0, 1.0, 41)
    constants = {
        "rho": stops,
        "low": 1.0 - stops / 2.0,
        "high": 1.0 + stops / 2.0,
        "trained": machines[:, 0],
        "trained error": error(machines[:, 0]),
        "share": share,
        "between": 2.0 * share * (3.0 - 2.0 * share),
        "chord": 2.0 * share,
    }
    for k in range(len(WEIGHTS)):
        constants |= {f"path{k}": machines[:, k + 1], f"value{k}": values[k]}
        constants[f"products{k}"] = penalty(machines[:, k + 1], stops)
    curves = {"(28): validation error of the trained machine": error(machines[:, 0])}
    for k in (0, 2, 3):
        curves[f"(29), weight {WEIGHTS[k]:g}: value"] = values[k]
        curves[f"(29), weight {WEIGHTS[k]:g}: sum of products"] = constants[f"products{k}"]

    def line(y: str, style: str) -> dict[str, Any]:
        return {"kind": "line", "x": "rho", "y": y, "style": style}

    position = {"kind": "here", "x": "weight", "style": "here"}
    spot = [{"kind": "dot", "x": ["entry list", "rho"], "y": name} for name in ("at trained", "at #")]
    panels = [
        {
            "title": "Two machines",
            "x": {"label": "ρ"},
            "y": {"label": "a", "from": -0.1, "to": 2.6},
            "caption": "Dashed: multipliers exist between these lines only. Thin: the machine that is trained at ρ. "
            "Thick: the point of (29) with the penalty weight chosen above, which leaves it.",
            "marks": [
                line("low", "bound"),
                line("high", "bound"),
                line("trained", "train-line"),
                line("path#", "model"),
                position,
                *spot,
            ],
        },
        {
            "title": "Value over ρ",
            "x": {"label": "ρ"},
            "y": {"label": "value"},
            "caption": "Thin: the validation error of the trained machine, 4 at best. Thick: the value of (29). With "
            "weight 1 it falls to 3.5 at ρ = 0.5, which no trained machine has; from weight 2 on 4 is best.",
            "marks": [line("trained error", "train-line"), line("value#", "model"), position],
        },
        {
            "title": "Multipliers times slacks",
            "x": {"label": "ρ"},
            "y": {"label": "sum of products"},
            "caption": "Complementary slackness, which the paper asks to be checked afterwards: this sum is zero.",
            "marks": [{"kind": "level", "y": 0, "style": "axis"}, line("products#", "model"), position],
        },
        {
            "title": "Why: the penalty on a straight line",
            "x": {"label": "share of the way"},
            "y": {"label": "penalty"},
            "caption": "Between two feasible points, (ρ, t) = (0, 3) and (2, 1) at a = 1, the penalty is above the "
            "straight line: ρ × t is not convex, so neither is (29).",
            "marks": [
                {"kind": "line", "x": "share", "y": "between", "style": "model"},
                {"kind": "line", "x": "share", "y": "chord", "style": "bound"},
            ],
        },
    ]
    take = {"at trained": {"take": [0]}} | {f"at {k}": {"take": [k + 1]} for k in range(len(WEIGHTS))}
    data = {
        "sign": "ρ",
        "own": "the best of (29) with weight 1",
        "choose": "penalty weight",
        "stops": encode_numbers(stops),
        "start": int(np.argmin(values[0])),
        "inputs": [f"{c:g}" for c in WEIGHTS],
        "panels": panels,
        "vectors": take,
        "constants": {name: encode_numbers(numbers) for name, numbers in constants.items()},
        "state": {"knots": encode_numbers(stops), "rows": encode_numbers(machines), "width": machines.shape[1]},
        "curves": [
            {"name": name, "values": encode_numbers(numbers), "whole": False} for name, numbers in curves.items()
        ],
    }
    words = (
        "Structure detection bounds every component by a t, of which ρ times the sum is the penalty; ξ⁻ and ξ⁺ are the "
        "multipliers of the two bounds. Pelckmans et al. (2005) choose ρ with the machine, by the validation error of "
        "the machine that is trained at ρ, (28). Its constraints are the conditions (27) of training, all linear but "
        "(e) and (f): a multiplier times its slack is zero. In (29) these products are a penalty instead; the "
        "paper has the weight ω = 1, calls (29) a quadratic program and says that it has the solution of (28).",
        "All products are at least zero, so that a penalty of zero is complementary slackness. But ρ and t are both "
        "unknown, and their product is not convex: at every fixed ρ (29) is a convex problem, over ρ it is not, and "
        "with weight 1 its solution is no trained machine. Two training points are enough to see it: the kernel matrix "
        "I, targets 1 and −1, and one validation point with the kernel row (2, 0) and the target 4. Then α = (a, −a), "
        "the validation error is (4 − 2a)², and the penalty 2a² − 2a + ρt with t ≥ |a|.",
    )
    body = [paragraph(words[0]), _EQUATIONS, *(paragraph(text) for text in words[1:]), moving_html(data, (), "", "")]
    return page("Why is (29) not convex?", body, script_policy(), "broad")


def gamma() -> str:
    """Return the motorcycle data and the LS-SVM."""
    fit = fit_table(read_table("@motorcycle"), Choices("accel"))
    return moving_document(
        "An LS-SVM and its gamma",
        Subject.of(fit),
        "Every fit on this page is exact: one eigendecomposition of the kernel matrix gives the machine at every "
        "gamma, and with it the errors of all rows left out one at a time.",
    )


def rho() -> str:
    """Draw four inputs, one of which is noise."""
    X, y = additive_function(random_state=1)
    X, is_validation = X[:, [0, 1, 2, 9]], np.arange(y.size) % 3 == 0
    model = FusedMaximalVariationRegressor().fit(
        X[~is_validation], y[~is_validation], X[is_validation], y[is_validation]
    )
    names, flat = ("first", "second", "third", "noise"), np.zeros(4)
    rows = (X[~is_validation], y[~is_validation], X[is_validation], y[is_validation])
    return moving_document(
        "Maximal variation and its rho",
        Subject(model, *rows, names, "y", flat, flat + 1.0, flat > 0.0),
        "A sum of functions of one input each. As rho grows, what an input may contribute shrinks, and inputs that "
        "matter little vanish first. The machine is piecewise linear in rho, so this page is exact at every value.",
    )


_DRAGGED = """<div id="page" hidden>
<div class="controls">
<span class="slide"><label for="gamma">γ</label><input type="range" id="gamma" min="-2" max="5" step="0.02"
value="1.5"><output id="shown-gamma" for="gamma"></output></span>
<span class="slide"><label for="sigma">σ</label><input type="range" id="sigma" min="-0.7" max="1" step="0.01"
value="0.2"><output id="shown-sigma" for="sigma"></output></span>
<button type="button" id="add">add a point</button><button type="button" id="remove">remove the last</button>
<button type="button" id="again">start again</button>
<span><input type="checkbox" id="spoil"><label for="spoil">spoil α₁ by 0.001</label></span></div>
<div class="panels"><svg id="field" role="group" aria-label="points and the fitted curve"></svg></div>
<p id="verdict" role="status"></p>
<table class="curves"><tbody>
<tr><th scope="row">rows</th><td class="number" id="shown-rows"></td></tr>
<tr><th scope="row">‖y − f − α/γ‖, which bounds ‖f − f*‖</th><td class="number" id="shown-residual"></td></tr>
<tr><th scope="row">|1ᵀα|</th><td class="number" id="shown-sum"></td></tr>
<tr><th scope="row">b</th><td class="number" id="shown-bias"></td></tr>
<tr><th scope="row">largest |α|</th><td class="number" id="shown-largest"></td></tr></tbody></table></div>"""


def drag() -> str:
    """Return the page on which points are dragged, and the LS-SVM is solved in the browser."""
    script = (Path(__file__).parent / "dragged_points.js").read_text(encoding="utf-8")
    words = (
        "Drag a point, or touch an empty place to add one; a double click, or the key Delete, removes one. The LS-SVM "
        "is solved here, by one Cholesky factorisation of K + I/γ with the kernel k(x, z) = exp(−(x − z)²/σ²), and its "
        "certificate is computed here too. Thin lines are the errors e = α/γ.",
        "For support values that add up to zero the residual of the linear system bounds the distance of the fitted "
        "values from the exact optimum, whatever γ is. The number below is that bound with all rounding added, root "
        "mean square. Spoil one support value, and the bound says so: no solver is trusted.",
    )
    body = [
        *(paragraph(text) for text in words),
        _DRAGGED,
        f"<noscript>{paragraph('This page needs JavaScript to solve and to draw.')}</noscript>",
        f"<script>{script}</script>",
    ]
    return page("Drag a point", body, script_policy(script), "broad")


def pages() -> dict[str, str]:
    """Return all pages by their file names."""
    return {"drag.html": drag(), "gamma.html": gamma(), "rho.html": rho(), "not_convex.html": not_convex()}


def write(folder: Path) -> None:
    """Make all pages in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Make the pages beside those that Sphinx has built."""

    def make(app: Any, failure: Exception | None) -> None:
        if failure is None and app.builder.format == "html":
            write(Path(app.outdir) / "moving")

    app.connect("build-finished", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
