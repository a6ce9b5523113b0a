"""The search outside: over a list of kernels, or over the logarithms of a kernel's parameters."""

from typing import Any

import numpy as np

from problems.estimators.chosen.candidates import Judged, Task, judge
from substrate.errors import DeclarationError
from substrate.kernels import Kernel
from substrate.progress import Progress

__all__ = ["MOST_KERNELS", "best_of", "nelder_mead", "tunable"]

#: Parameters that select a formula rather than a scale.
_FIXED = ("degree", "nu")

#: Most kernels that a search judges unless another number is given.
MOST_KERNELS = 40
_FIRST_STEP = 0.5


#: Largest distance of a logarithm from its start: beyond it kernels are the identity or constant, or overflow.
_FARTHEST = 12.0


def tunable(kernel: Kernel) -> dict[str, float]:
    """The positive numbers of a resolved kernel that set a scale, by name."""
    return {
        name: float(value)
        for name, value in kernel.get_params(deep=True).items()
        if isinstance(value, float) and value > 0.0 and name.rpartition("__")[2] not in _FIXED
    }


def best_of(kernels: list[Kernel], task: Task, n_jobs: Any, progress: Progress) -> list[Judged]:
    """Judge every kernel, several at a time if requested."""
    if n_jobs in (None, 1) or len(kernels) == 1:
        judged = []
        for kernel in kernels:
            progress.step(repr(kernel))
            judged.append(judge(kernel, task))
        return judged
    from joblib import Parallel, delayed

    calls = (delayed(judge)(kernel, task) for kernel in kernels)
    done = []
    for result in Parallel(n_jobs=n_jobs, return_as="generator")(calls):
        progress.step(repr(result.kernel))
        done.append(result)
    return done


def nelder_mead(start: Judged, task: Task, most: int, progress: Progress) -> list[Judged]:
    """Judge kernels along a simplex search ([Cawley2004]_ section 3) in the logarithms of the parameters."""
    from scipy.optimize import minimize

    names = tunable(start.kernel)
    if not names:
        raise DeclarationError(f"{start.kernel!r} has no parameter to search; give kernels= or search=None")
    origin = np.log(np.array(list(names.values())))
    seen: dict[Kernel, Judged] = {start.kernel: start}
    judged: list[Judged] = []

    def value(x: Any) -> float:
        near = np.exp(np.clip(x, origin - _FARTHEST, origin + _FARTHEST))
        kernel = start.kernel.with_params(**dict(zip(names, (float(v) for v in near), strict=True)))
        if np.array_equal(x, origin):  # exp(log(v)) may differ from v by rounding
            kernel = start.kernel
        if kernel not in seen:
            progress.step(repr(kernel))
            seen[kernel] = judge(kernel, task)
            judged.append(seen[kernel])
        return _logarithm(seen[kernel].score)

    simplex = np.vstack([origin, origin + _FIRST_STEP * np.eye(origin.size)])
    options = {"maxfev": most, "xatol": 1e-2, "fatol": 1e-4, "initial_simplex": simplex}
    minimize(value, origin, method="Nelder-Mead", options=options)
    return judged


def _logarithm(score: float) -> float:
    return float(np.log(max(score, np.finfo(np.float64).tiny)))
