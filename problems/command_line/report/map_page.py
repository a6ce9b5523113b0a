"""Two or three weights chosen together: a page with the map of the errors at every machine that was solved."""

from typing import Any

import numpy as np

from problems.command_line.report.moving import encode_numbers
from problems.command_line.report.moving_page import moving_html, script_policy
from problems.command_line.report.page import page, paragraph
from substrate.arrays import Array
from substrate.errors import DeclarationError

__all__ = ["map_data", "map_page"]

#: Most machines on a map; of more, those of the smallest errors and some of the others.
_MOST = 1500


def map_page(title: str, model: Any) -> str:
    """Return the page of a fitted estimator, or of a ``JointFusion``, that chose several weights together."""
    if hasattr(model, "validation_error"):  # a JointFusion
        path = model.path
        map_numbers = (path.parameters, path.values, path.validation_errors, model.lower_bound)
    elif "parameters" in getattr(model, "path_", ()):
        path = model.path_
        map_numbers = (path["parameters"], path["values"], path["criterion"], model.criterion_lower_bound_)
    else:
        raise DeclarationError(
            f"a map is drawn of two or three weights chosen together; received {type(model).__name__}"
        )
    data, notes = map_data(*map_numbers)
    words = "Left is the worst machine, right the best. Every dot is a machine; the lines cross at this one."
    return page(title, [paragraph(words), moving_html(data, notes, "", "")], script_policy(), "broad")


def map_data(names: Any, values: Array, errors: Array, bound: float) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what the page needs: the weights of every machine and its error, in the order of falling errors."""
    names, values, errors = [str(name) for name in names], np.asarray(values), np.asarray(errors)
    order = np.argsort(-errors, kind="stable")
    notes: tuple[str, ...] = ()
    if order.size > _MOST:
        best, others_ = order[-_MOST // 2 :], order[: -_MOST // 2]
        order = np.concatenate([others_[np.linspace(0, others_.size - 1, _MOST - best.size).astype(int)], best])
        notes = (
            f"To keep the page small, {_MOST} of {errors.size} machines are drawn, the best half of them complete.",
        )
    values, errors = values[order], errors[order]
    positive = values[values > 0.0]
    # zero has no logarithm: it is drawn a decade below the smallest other value
    floor = float(positive.min()) / 10.0 if positive.size else 1.0
    shown = np.maximum(values, floor)
    if (values <= 0.0).any():
        notes = (*notes, f"A weight of zero is drawn at {floor:.3g}.")
    texts = [", ".join(f"{name} = {value:.4g}" for name, value in zip(names, row, strict=True)) for row in values]
    pairs = [(0, 1)] if len(names) == 2 else [(0, 1), (0, 2), (1, 2)]
    near = (errors <= 1.01 * errors.min()).astype(float)
    constants = {f"w{k}": encode_numbers(shown[:, k]) for k in range(len(names))}
    constants |= {"near": encode_numbers(near), "error": encode_numbers(errors)}
    panels: list[dict[str, Any]] = [
        {
            "title": f"{names[b]} over {names[a]}",
            "caption": "Large dots: within 1 % of the smallest error.",
            "x": {"label": names[a], "log": True},
            "y": {"label": names[b], "log": True},
            "marks": [
                {"kind": "dot", "x": f"w{a}", "y": f"w{b}", "on": "near"},
                {"kind": "here", "x": ["entry", f"w{a}"], "style": "here"},
                {"kind": "level", "y": ["entry", f"w{b}"], "style": "here"},
            ],
        }
        for a, b in pairs
    ]
    lines: list[dict[str, Any]] = [{"kind": "line", "x": "numbers", "y": "error", "style": "held-line"}]
    caption = "All machines, the worst first."
    if np.isfinite(bound):
        lines.append({"kind": "level", "y": float(bound), "style": "bound"})
        caption += f" Dashed: the lower bound {bound:.4g}, below which no weights of the range proved can be."
    constants["numbers"] = encode_numbers(np.arange(1.0, errors.size + 1.0))
    lines.append({"kind": "here", "x": ["entry", "numbers"], "style": "here"})
    axis = {"label": "held-out mean squared error", "log": bool(errors.min() > 0.0)}
    panels.append({"title": "Errors", "caption": caption, "x": {"label": "machine"}, "y": axis, "marks": lines})
    data = {
        "sign": "machine",
        "own": "the best",
        "texts": texts,
        "stops": encode_numbers(np.arange(errors.size)),
        "start": int(errors.size - 1),
        "inputs": [""],
        "panels": panels,
        "vectors": {},
        "constants": constants,
        "state": {"eigenvalues": encode_numbers([])},
        "curves": [{"name": "held-out mean squared error", "values": encode_numbers(errors), "whole": False}],
    }
    return data, notes
