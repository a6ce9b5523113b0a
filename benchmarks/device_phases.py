"""The time of a fit on a GPU by functions: ``python -m benchmarks.device_phases [--quick]``.

The device is synchronised after every function, so the sum exceeds the time of an ordinary, asynchronous fit.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from benchmarks.device import contenders

#: Functions by the modules that call them, in which they are replaced.
PHASES = {
    "problems.estimators.shared.base": ("checked_on_device", "warn_if_unscaled"),
    "problems.estimators.full.saddle_fit": ("solve_saddle_system", "saddle_rows"),
    "problems.estimators.chosen.tasks": ("centred_spectrum",),
    "problems.estimators.chosen.candidates": ("search_spectra",),
    "problems.estimators.chosen.model_search": ("fit_saddle", "projected_diagonal"),
    "substrate.reduced.choice": ("sample_of",),
    "problems.estimators.reduced.prepared": ("origin_of", "accumulate"),
    "problems.estimators.reduced.ls_svm": ("prepare",),
    "problems.estimators.reduced.fit": (
        "eigen_features", "reconstruction_errors", "reduced_spectrum", "solve_reduced", "leverage_factor",
    ),
    "substrate.device_gram": ("device_matrix", "cholesky", "solve_triangular"),
    "substrate.closed_form.spectrum": ("_decomposition_on_device",),
    "substrate.paths.criteria": ("_leave_one_out_sums",),
    "substrate.reduced.solution": ("_error", "reduced_rows", "residual_pass"),
}  # fmt: skip


@contextmanager
def _timed(torch: Any, seconds: dict[str, float], calls: dict[str, int]) -> Iterator[None]:
    replaced = []
    for module_name, names in PHASES.items():
        module = import_module(module_name)
        for name in names:
            function = getattr(module, name)
            replaced.append((module, name, function))

            def wrapped(*args: Any, _function: Any = function, _key: str = f"{module_name}.{name}", **more: Any) -> Any:
                torch.cuda.synchronize()
                start = time.perf_counter()
                result = _function(*args, **more)
                torch.cuda.synchronize()
                seconds[_key] += time.perf_counter() - start
                calls[_key] += 1
                return result

            setattr(module, name, wrapped)
    try:
        yield
    finally:
        for module, name, function in replaced:
            setattr(module, name, function)


def main(quick: bool) -> None:
    import torch

    for case, (_, plain, fit) in contenders(torch, quick).items():
        plain()
        fit()
        seconds: dict[str, float] = defaultdict(float)
        calls: dict[str, int] = defaultdict(int)
        with _timed(torch, seconds, calls):
            torch.cuda.synchronize()
            start = time.perf_counter()
            fit()
            torch.cuda.synchronize()
            whole = time.perf_counter() - start
        print(f"{case}: {whole:.4f} s")
        for key, value in sorted(seconds.items(), key=lambda pair: -pair[1]):
            print(f"    {value:.4f} s in {calls[key]:4d} calls of {key}")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main("--quick" in sys.argv)
