"""The search of width and gamma with a proof: its limits, its rectangle, and the machine at the best point.

:mod:`substrate.search.width_search` bounds the criterion over the whole rectangle of widths and gammas; this states
what it is used for, and polishes the best point by a local search in the width, each time at the best gamma.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from problems.estimators.chosen.candidates import EvaluatedKernel, evaluate
from problems.estimators.chosen.kernel_search import MOST_FACTORS, MOST_KERNELS
from problems.estimators.chosen.tasks import Task
from substrate.arrays import ascending_pair, positive
from substrate.errors import DeclarationError
from substrate.kernels import Kernel
from substrate.least_squares.evidence import OF_SPECTRUM
from substrate.namespaces import is_device_array, to_numpy
from substrate.search.compressed_search import CompressedZones
from substrate.search.gamma_search import gamma_ends
from substrate.search.width_bounds import WidthFamily
from substrate.search.width_search import WidthSearch, WidthZones, search_widths

__all__ = [
    "MOST_ROWS",
    "MOST_ROWS_OF_EVIDENCE",
    "MOST_ZONES",
    "certified_search",
    "check_certified",
    "most_evaluations",
]

#: Time grows with the cube of the number of rows, and is minutes from three hundred on; evidence is bounded on few
#: directions.
MOST_ROWS, MOST_ROWS_OF_EVIDENCE = 500, 5000
#: Most kernel matrices that are decomposed unless another number is given.
MOST_ZONES = 5000
#: The default range of gamma times the number of rows, and its largest upper end: beyond it rounding decides.
_LOWEST, _HIGHEST, _LIMIT = 0.1, 1e8, 1e9
#: Kernels that are judged around the best point, of few rows and of many.
_POLISHING, _POLISHING_OF_MANY = 12, 3


def most_evaluations(search: str | None, limit: int | None, by_factors: bool = False) -> int:
    """Return the most kernels or kernel matrices that a search looks at; ``by_factors``: without judging each of
    them.
    """
    return int(limit or (MOST_ZONES if search == "certified" else MOST_FACTORS if by_factors else MOST_KERNELS))


def check_certified(search: str | None, criterion: str, widths: Any, gap: float) -> None:
    """Refuse criteria without a bound over the width, and a range or gap that is none."""
    positive(gap, "width_gap")
    if widths is not None:
        ascending_pair(widths, "sigma_range")
    if search != "certified" and widths is not None:
        raise DeclarationError(f"sigma_range is for search='certified', received search={search!r}")
    if search == "certified" and criterion not in OF_SPECTRUM:
        raise DeclarationError(
            "search='certified' bounds leave-one-out, generalised cross-validation and evidence: use cv='loo', "
            f"cv='gcv' or cv='evidence' with loss='squared', or search='nelder-mead'; received {criterion!r}"
        )


def certified_search(
    kernels: list[Kernel], task: Task, widths: Any, gap: float, most: int, step: Callable[[str], None]
) -> list[EvaluatedKernel]:
    """Search the rectangle of every kernel; each winner, polished, with the bound over all rectangles."""
    _check_task(task)
    size = 1.0 if task.weights is None else float(to_numpy(task.weights).mean())
    v = None if task.weights is None else to_numpy(task.weights) / size
    gammas = _gammas(task, size)
    lambdas = (1.0 / (size * gammas[1]), 1.0 / (size * gammas[0]))
    families = list(dict.fromkeys(_unit_width(WidthFamily.of(kernel, task.X)) for kernel in kernels))
    searches: list[tuple[WidthFamily, WidthSearch]] = []
    best_value = np.inf
    for kernel in families:
        family = WidthFamily.of(kernel.resolved(task.X), task.X)
        ends = family.default_range() if widths is None else _logarithms(widths, family)
        each = max(1, most // len(families))
        search = search_widths(
            family, to_numpy(task.Y), task.criterion, lambdas, ends, gap, each, v, best_value, step, _kind(task)
        )
        searches.append((family, search))
        best_value = min(best_value, search.value)
    lowest = min(search.bound for _, search in searches)
    judged: list[EvaluatedKernel] = []
    for family, search in searches:
        by_kernel = _polish(family, search, replace(task, gammas=gammas))
        all_kernels = replace(
            search,
            bound=lowest,
            zones=sum(width_search.zones for _, width_search in searches),
            cells=sum(width_search.cells for _, width_search in searches),
        )
        judged += [replace(width_search, widths=all_kernels) for width_search in by_kernel]
    return judged


def _kind(task: Task) -> type[WidthZones]:
    """Return how zones are decomposed: by evidence from their ends, by other criteria from their middle."""
    return CompressedZones if task.criterion == "evidence" else WidthZones


def _check_task(task: Task) -> None:
    n, outputs = task.Y.shape
    by_evidence = task.criterion == "evidence"
    most = MOST_ROWS_OF_EVIDENCE if by_evidence else MOST_ROWS
    if n > most:
        others = "" if by_evidence else f"use cv='evidence', for at most {MOST_ROWS_OF_EVIDENCE}, "
        raise DeclarationError(
            f"search='certified' decomposes hundreds of kernel matrices, for at most {most} rows, received {n}; "
            f"{others}fit a sample of the rows to choose the width, or use search='nelder-mead'"
        )
    if is_device_array(task.X) and not by_evidence:
        raise DeclarationError(
            "search='certified' computes on the host but for cv='evidence'; pass a numpy array (X.cpu().numpy(), "
            "X.get()), or use cv='evidence'"
        )
    if not task.pooled and outputs > 1:
        raise DeclarationError(
            f"search='certified' is for one output, received {outputs}, whose best widths differ; fit one at a time"
        )
    if (to_numpy(task.Y) == 0.0).any() and task.pooled:
        raise DeclarationError("search='certified' needs machines on all rows; use another coding than 'one_vs_one'")


def _gammas(task: Task, size: float) -> tuple[float, float]:
    """Return the range of gamma, in the units of the given weights."""
    n = task.Y.shape[0] * size
    if task.gammas is None:
        return _LOWEST / n, _HIGHEST / n
    low, high = gamma_ends(task.gammas)
    if high > _LIMIT / n:
        raise DeclarationError(
            f"search='certified' needs a gamma_range that ends at {_LIMIT / n:.3g} for these rows, beyond which "
            f"rounding of the kernel values decides; received {high:g}"
        )
    return low, high


def _unit_width(family: WidthFamily) -> Any:
    return replace(family.kernel, sigma="median")


def _logarithms(widths: Any, family: WidthFamily) -> tuple[float, float]:
    low, high = ascending_pair(widths, "sigma_range")
    return float(np.log(low / family.unit)), float(np.log(high / family.unit))


def _polish(family: WidthFamily, search: WidthSearch, task: Task) -> list[EvaluatedKernel]:
    """Return the kernel of the best point and others around it, each at its own best gamma."""
    from scipy.optimize import minimize_scalar

    ends = [float(np.log(end / family.unit)) for end in search.widths]
    low, high = max(search.t - _near(search), ends[0]), min(search.t + _near(search), ends[1])
    judged = [evaluate(family.kernel_at(search.t), task)]

    def value(t: Any) -> float:
        judged.append(evaluate(family.kernel_at(float(t)), task))
        return judged[-1].score

    most = _POLISHING if task.Y.shape[0] <= MOST_ROWS else _POLISHING_OF_MANY
    if low < high and judged[0].score > 0.0:
        minimize_scalar(value, bounds=(low, high), method="bounded", options={"maxiter": most, "xatol": 1e-3})
    return judged


def _near(search: WidthSearch) -> float:
    """Return how far from the best point of the cells a better one is looked for, in the logarithm of the width."""
    return float(min(max(2.0 * np.sqrt(search.gap), 0.05), 0.5))
