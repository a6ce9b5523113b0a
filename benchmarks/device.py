"""Fits on a GPU through the estimators, beside the same matrices in plain torch.

``python -m benchmarks device`` as every topic; ``python -m benchmarks.device`` where cvxpy is not installed: checks
torch and CuPy against numpy first, then measures, and with ``--write`` puts the section into the record of this kind of
processor (``--record aarch64``: into another one), leaving the rest alone. With ``--phases`` it prints where the time
of each fit goes instead.
"""

import gc
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.data import COLUMNS
from benchmarks.device_agreement import disagreements
from benchmarks.device_phases import phases, why
from benchmarks.measure import Measured
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor, LSSVMRegressorCV, SparseLSSVMRegressor
from substrate.kernels import RBF
from substrate.reduced import Basis

__all__ = ["contenders", "run", "torch_with_a_gpu", "write_section"]

TITLE = "On a GPU: fits through the estimators, beside plain torch"
MOST, MOST_SMALLER = 1.3, 1.5
GAMMA = 2.0
#: Rows of a dense fit, of a smaller one whose fixed costs show, and of a search of gamma; width of their kernel.
DENSE, SMALLER, SEARCHED, WIDE = 40_000, 5_000, 5_000, 10.0**0.5
#: Basis vectors and rows of the sparse fits; a width at which sums of kernel values keep their digits.
REDUCED, NARROW = {1000: 16_000_000, 4000: 4_000_000}, 2.0
QUICK = 10
#: Rounds, and those of contenders which together take less than so many seconds.
REPEATS, REPEATS_OF_SHORT, SHORT = 5, 25, 0.1
#: Entries of a block of rows in plain torch.
BLOCK = 1 << 27


def _data(torch: Any, n: int) -> tuple[Any, Any]:
    generator = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(n, COLUMNS, dtype=torch.float64, device="cuda", generator=generator)
    noise = torch.randn(n, dtype=torch.float64, device="cuda", generator=generator)
    return X, torch.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.1 * noise


def _kernel_values(torch: Any, X: Any, Z: Any, sigma: float) -> Any:
    """exp(-||x - z||^2 / sigma^2), with nothing but the products and passes it takes."""
    left, right = X / sigma, Z / sigma
    out = torch.addmm((right * right).sum(1)[None, :], left, right.T, beta=-1.0, alpha=2.0)
    out -= (left * left).sum(1)[:, None]
    return out.clamp_(max=0.0).exp_()


def _dense(torch: Any, X: Any) -> Any:
    K = _kernel_values(torch, X, X, WIDE)
    K.diagonal().add_(1.0 / GAMMA)
    return torch.linalg.cholesky(K)


def _make_reduced(torch: Any, X: Any, Z: Any) -> Any:
    total = torch.zeros(Z.shape[0], Z.shape[0], dtype=torch.float64, device="cuda")
    step = BLOCK // Z.shape[0]
    for first in range(0, X.shape[0], step):
        block = _kernel_values(torch, X[first : first + step], Z, NARROW)
        total.addmm_(block.T, block)
    return total


def contenders(torch: Any, quick: bool) -> dict[str, tuple[str, Callable[[], object], Callable[[], Any]]]:
    """For every case: what is measured, plain torch, and the estimator's fit."""
    cut = QUICK if quick else 1
    X, y = _data(torch, DENSE // cut)
    S, t = X[: SEARCHED // cut], y[: SEARCHED // cut]
    F, g = X[: SMALLER // cut], y[: SMALLER // cut]
    K = _kernel_values(torch, S, S, WIDE)
    dense, search = LSSVMRegressor(RBF(WIDE), GAMMA), LSSVMRegressorCV(RBF(WIDE))
    cases: dict[str, tuple[str, Callable[[], object], Callable[[], Any]]] = {
        f"dense, N = {X.shape[0]}": ("kernel matrix + potrf", lambda: _dense(torch, X), lambda: dense.fit(X, y)),
        f"dense, N = {F.shape[0]}": ("kernel matrix + potrf", lambda: _dense(torch, F), lambda: dense.fit(F, g)),
        f"gamma by leave-one-out, N = {S.shape[0]}": (
            "eigh",
            lambda: torch.linalg.eigh(K),
            lambda: search.fit(S, t),
        ),
    }
    for n, rows in REDUCED.items():
        many, targets = _data(torch, rows // cut)
        machine = SparseLSSVMRegressor(RBF(NARROW), GAMMA, basis=Basis(n // cut, rule="random", random_state=0))
        cases[f"reduced basis, n = {n // cut}, {rows // cut:.1e} rows"] = (
            "kernel values + Z'Z",
            lambda X=many, n=n // cut: _make_reduced(torch, X, X[:n]),  # type: ignore[misc]
            lambda machine=machine, X=many, y=targets: machine.fit(X, y),  # type: ignore[misc]
        )
    return cases


def _seconds(torch: Any, calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Measured]:
    """Median wall seconds, to the end of the work on the device; interleaved, and two rounds are not counted.

    Of contenders that take long ``repeats`` rounds are, of others more.
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    turn, last = 0, repeats + 1
    while turn <= last:
        for name, call in calls.items():
            gc.collect()
            torch.cuda.synchronize()
            start = time.perf_counter()
            result = call()
            torch.cuda.synchronize()
            taken[name].append(time.perf_counter() - start)
            del result
        if turn == 1 and repeats == REPEATS and sum(times[1] for times in taken.values()) < SHORT:
            last = REPEATS_OF_SHORT + 1
        turn += 1
    return {name: Measured(times[2:]) for name, times in taken.items()}


def torch_with_a_gpu() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def run(quick: bool) -> Table | None:
    torch = torch_with_a_gpu()
    if torch is None:
        return None
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for case, (what, plain, fit) in contenders(torch, quick).items():
        t = _seconds(torch, {"plain": plain, "fit": fit}, 2 if quick else REPEATS)
        fitted = fit()
        holds = fitted.certificate_.holds
        torch.cuda.empty_cache()
        ratio = t["fit"] / t["plain"]
        most = MOST_SMALLER if case == f"dense, N = {SMALLER // (QUICK if quick else 1)}" else MOST
        met = bool(ratio <= most and holds)
        quotient = f"{ratio:.2f} ({ratio.spread[0]:.2f} to {ratio.spread[1]:.2f})"
        record = dict(fitted.certificate_.record)
        how = "; ".join(record[key] for key in ("statistic", "solver", "search of gamma") if key in record)
        rows.append((case, what, f"{t['plain']:.4f}", f"{t['fit']:.4f}", quotient, f"≤ {most:g}", yes_no(met), how))
        summary.append(Headline(f"GPU: {case}", f"{what} in torch", ratio, most=most, limit=ratio, held=holds))
        if not met:
            failed = "" if holds else ", certificate does not hold"
            shortfalls.append(
                f"{case}: {ratio:.2f} times plain torch{failed}; of {1e3 * t['fit']:.1f} ms {why(torch, fit)}."
            )
    name = torch.cuda.get_device_name()
    return Table(
        TITLE,
        f"On one {name}, torch {torch.__version__}, double precision, {COLUMNS} columns, data on the device before and "
        f"the model after. `LSSVMRegressor(RBF(sqrt(10)), gamma={GAMMA:g}).fit`, `LSSVMRegressorCV(RBF(sqrt(10))).fit` "
        f"and `SparseLSSVMRegressor(RBF({NARROW:g}), gamma={GAMMA:g}, basis=Basis(n, 'random')).fit`, certificates "
        "included; the limit is the matrices alone, in plain torch. Median wall seconds, warm, contenders take turns: "
        f"{REPEATS} rounds, {REPEATS_OF_SHORT} where they take less than {SHORT:g} s; quartiles of their quotient.",
        ("fit", "limit", "limit, s", "fit, s", "fit / limit", "target", "met", "how"),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )


def _print_phases(torch: Any, quick: bool) -> None:
    for case, (_, _, fit) in contenders(torch, quick).items():
        fit()
        whole, phase_times = phases(torch, fit)
        print(f"{case}: {whole:.4f} s; {why(torch, fit)}")
        for name, seconds, calls in phase_times:
            print(f"    {seconds:.4f} s in {calls:4d} calls of {name}")
        torch.cuda.empty_cache()


def write_section(topic: str, run: Callable[[bool], Table | None], arguments: list[str]) -> int:
    """Measure a topic, print it, and with ``--write`` put it into the record that ``--record`` names."""
    from benchmarks.__main__ import measure_topic, place
    from benchmarks.record import Record

    quick, write = "--quick" in arguments, "--write" in arguments
    if quick and write:
        raise SystemExit("--quick is never written to the record; leave out one of --quick and --write")
    named = arguments[arguments.index("--record") + 1] if "--record" in arguments else ""
    entry = measure_topic(topic, run, quick)
    if entry is None:
        print("there is no GPU that torch can use; nothing is measured and the record stays as it is")
        return 1
    print(entry.section(), flush=True)
    if write:
        record = Record.read(named)
        record.put(entry, sorted({*record.entries, topic}, key=place))
    return 0


def main(arguments: list[str]) -> int:
    if "--phases" in arguments:
        torch = torch_with_a_gpu()
        if torch is None:
            raise SystemExit("there is no GPU that torch can use")
        _print_phases(torch, "--quick" in arguments)
        return 0
    wrong = disagreements()
    return write_section("device", run, arguments) or (1 if wrong else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
