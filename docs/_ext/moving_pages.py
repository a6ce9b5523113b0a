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
        "Pelckmans et al. (2005) choose ρ by solving (29): the validation error plus a penalty, the sum of all "
        "products of a multiplier and its slack. At every fixed ρ that is a convex problem. Over ρ it is not, and with "
        "weight 1 its solution is no trained machine. Two training points are enough to see it.",
    )
    body = [*(paragraph(text) for text in words), moving_html(data, (), "", "")]
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


def pages() -> dict[str, str]:
    """Return all pages by their file names."""
    return {"gamma.html": gamma(), "rho.html": rho(), "not_convex.html": not_convex()}


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
