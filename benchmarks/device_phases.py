"""Where the time of a fit on a GPU goes: the work of the device, how often the host waits for it, and functions.

For the functions the device is synchronised after every one, so their sum exceeds the time of an ordinary fit.
``python -m benchmarks.device --phases [--quick]`` prints them.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

__all__ = ["phases", "why"]

#: Functions by the modules that call them, in which they are replaced.
PHASES = {
    "problems.estimators.shared.base": ("checked_on_device", "warn_if_unscaled"),
    "problems.estimators.full.saddle_fit": (
        "kernel_rounding",
        "solve_saddle_system",
        "saddle_rows",
        "bound_and_refine",
    ),
    "problems.estimators.chosen.tasks": ("centred_spectrum",),
    "problems.estimators.chosen.candidates": ("search_spectra",),
    "problems.estimators.chosen.dense_search": ("fit_saddle", "projected_diagonal"),
    "substrate.reduced.choice": ("sample_of",),
    "problems.estimators.reduced.prepared": ("origin_of",),
    "problems.estimators.reduced.ls_svm_machine": ("prepare",),
    "problems.estimators.reduced.fit": (
        "accumulate",
        "eigen_features",
        "reconstruction_errors",
        "reduced_spectrum",
        "solve_reduced",
        "leverage_factor",
    ),
    "substrate.least_squares.queued_system": ("device_matrix", "begin_saddle_system"),
    "substrate.device_gram": ("device_matrix", "cholesky", "inverse_blocks", "solve_by_blocks", "solve_triangular"),
    "substrate.least_squares.spectrum": ("_decomposition_on_device",),
    "substrate.least_squares.criteria": ("_left_out_sums",),
    "substrate.reduced.solution": ("reduced_rows", "residual_pass"),
}


@contextmanager
def _time_calls(torch: Any, seconds: dict[str, float], calls: dict[str, int]) -> Iterator[None]:
    replaced = []
    for module_name, names in PHASES.items():
        module = import_module(module_name)
        for name in names:
            function = getattr(module, name)
            replaced.append((module, name, function))

            def wrap(*args: Any, _function: Any = function, _key: str = f"{module_name}.{name}", **more: Any) -> Any:
                torch.cuda.synchronize()
                start = time.perf_counter()
                result = _function(*args, **more)
                torch.cuda.synchronize()
                seconds[_key] += time.perf_counter() - start
                calls[_key] += 1
                return result

            setattr(module, name, wrap)
    try:
        yield
    finally:
        for module, name, function in replaced:
            setattr(module, name, function)


#: What the profiler calls the functions by which a host waits.
_WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy")
#: Functions that a sentence names.
_NAMED = 3


def phases(torch: Any, fit: Callable[[], object]) -> tuple[float, list[tuple[str, float, int]]]:
    """Return seconds of a fit whose functions are synchronised, and of each: name, seconds, calls; the slowest
    first.
    """
    seconds: dict[str, float] = defaultdict(float)
    calls: dict[str, int] = defaultdict(int)
    with _time_calls(torch, seconds, calls):
        torch.cuda.synchronize()
        start = time.perf_counter()
        fit()
        torch.cuda.synchronize()
        whole = time.perf_counter() - start
    return whole, sorted(((key, seconds[key], calls[key]) for key in seconds), key=lambda phase: -phase[1])


def why(torch: Any, fit: Callable[[], object]) -> str:
    """In a sentence: the time of the device's work, the number of waits, and the slowest functions."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        fit()
    events = profiler.key_averages()
    on_device = [event for event in events if str(event.device_type).endswith("CUDA")]
    busy = sum(getattr(event, "self_device_time_total", 0.0) for event in on_device) / 1e6
    waits = sum(event.count for event in events if event.key in _WAITS)
    slowest = "; ".join(f"`{key}` {1e3 * value:.1f} ms" for key, value, _ in phases(torch, fit)[1][:_NAMED])
    return f"the device works {1e3 * busy:.1f} ms, the host waits for it {waits} times; by functions: {slowest}"
