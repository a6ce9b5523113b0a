"""All rows on a GPU, certified: machines whose kernel matrix is replaced by its factor, or not stored at all.

``python -m benchmarks all_rows`` measures dense fits in place and fits without a matrix, beside conjugate gradients and
Falkon's algorithm in plain torch. ``python -m benchmarks.all_rows`` where cvxpy is not installed; ``--write`` and
``--record`` as :mod:`benchmarks.device` has them.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.data import COLUMNS
from benchmarks.device import torch_with_a_gpu, write_section
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor
from substrate.kernels import RBF

__all__ = ["GAMMA", "HEADINGS", "SHARE", "WIDTH", "describe_way", "run"]

WIDTH, GAMMA = 10.0**0.5, 10.0
#: Rows on a GPU: factored in place, and without a matrix, to a share of the spread, with seconds that are allowed.
IN_PLACE, MANY = (120_000, 18.0), (1_000_000, 300.0)
#: Rows of the comparison with plain torch, vectors of Falkon's algorithm, its iterations, rows of the test.
COMPARED, VECTORS, STEPS, FRESH = 200_000, 4_000, 20, 20_000
SHARE = 1e-3
QUICK = 20
TILE = 16_384
MOST_STEPS = 150

HEADINGS = ("fit", "rows", "seconds", "proved distance, share of the spread", "test error", "limit", "met", "how")


def run(quick: bool) -> Table | None:
    torch = torch_with_a_gpu()
    return None if torch is None else measure(torch, quick)


def _data(torch: Any, n: int) -> tuple[Any, Any]:
    generator = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(n, COLUMNS, dtype=torch.float64, device="cuda", generator=generator)
    noise = torch.randn(n, dtype=torch.float64, device="cuda", generator=generator)
    return X, torch.sin(X).sum(dim=1) + 0.1 * noise


def measure(torch: Any, quick: bool) -> Table:
    cut = QUICK if quick else 1
    rows, shortfalls, summary = [], [], []
    LSSVMRegressor(RBF(WIDTH), GAMMA, solver="cg").fit(*_data(torch, 3000))  # what the first call loads is not counted
    for name, (n, limit) in (("in place", IN_PLACE), ("without a matrix", MANY)):
        X, y = _data(torch, n // cut)
        model, seconds = _timed(torch, lambda X=X, y=y: LSSVMRegressor(RBF(WIDTH), GAMMA, tol=SHARE).fit(X, y))
        accuracy = model.certificate_.rows[0]
        met = bool(model.certificate_.holds and seconds <= limit)
        cells = (f"{seconds:.1f}", f"{accuracy.relative:.1e}", "", f"{limit:g} s", yes_no(met), describe_way(model))
        rows.append((f"all rows, {name}", f"{n // cut:,}", *cells))
        case = f"GPU: all rows, {name}, N = {n // cut}"
        summary.append(Headline(case, f"{limit:g} s", seconds / limit, most=1.0, held=bool(model.certificate_.holds)))
        if not met:
            shortfalls.append(f"{case}: {seconds:.1f} s of {limit:g}, to {accuracy.relative:.1e}.")
        del model, X, y
        torch.cuda.empty_cache()
    X, y = _data(torch, COMPARED // cut + FRESH)
    fresh, X, y = (X[-FRESH:], y[-FRESH:]), X[:-FRESH], y[:-FRESH]
    machine = LSSVMRegressor(RBF(WIDTH), GAMMA, tol=SHARE, solver="cg")
    model, ours = _timed(torch, lambda: machine.fit(X, y))
    reached = model.certificate_.rows[0].relative

    def error(f: Callable[[Any], Any]) -> str:
        return f"{float((f(fresh[0]) - fresh[1]).square().mean().sqrt()):.4f}"

    size = f"{X.shape[0]:,}"
    rows.append(
        (
            "all rows, preconditioned",
            size,
            f"{ours:.2f}",
            f"{reached:.1e}",
            error(model.predict),
            "",
            "",
            describe_way(model),
        )
    )
    (alpha, b, steps), plain = _timed(torch, lambda: _plain_gradients(torch, X, y))
    ended = "" if steps < MOST_STEPS else " and not there yet"
    said = f"{steps} steps of float32 tiles{ended}, nothing proved"
    rows.append(
        (
            "plain torch, conjugate gradients",
            size,
            f"{plain:.2f}",
            "",
            error(lambda Z: _expand(torch, Z, X, alpha) + b),
            "",
            "",
            said,
        )
    )
    centres = X[torch.randperm(X.shape[0], device="cuda")[: VECTORS // cut]]
    (weights, b), falkon = _timed(torch, lambda: _falkon(torch, X, y, centres))
    said = f"{centres.shape[0]} vectors, {STEPS} steps, nothing proved"
    rows.append(
        (
            "plain torch, Falkon's algorithm",
            size,
            f"{falkon:.2f}",
            "",
            error(lambda Z: _expand(torch, Z, centres, weights) + b),
            "",
            "",
            said,
        )
    )
    summary.append(Headline(f"GPU: all rows, N = {X.shape[0]}", "plain torch gradients", plain / ours, least=1.0))
    return Table(
        "All rows on a GPU, certified",
        f"On one {torch.cuda.get_device_name()}, torch {torch.__version__}: {COLUMNS} standard normal columns, "
        f"y the sum of their sines with noise 0.1, `LSSVMRegressor(RBF(sqrt(10)), gamma={GAMMA:g}, tol={SHARE:g})`, "
        "certificate included; wall seconds of one run. The peers solve to the same share without a proof; Falkon's "
        "algorithm has fewer vectors, and its error on fresh rows shows what all rows gain.",
        HEADINGS,
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )


def describe_way(model: Any) -> str:
    record = dict(model.certificate_.record)
    return "; ".join(record[key] for key in ("solver", "precision", "memory") if key in record)


def _timed(torch: Any, call: Callable[[], Any]) -> tuple[Any, float]:
    torch.cuda.synchronize()
    start = time.perf_counter()
    made = call()
    torch.cuda.synchronize()
    return made, time.perf_counter() - start


def _values(torch: Any, X: Any, Z: Any) -> Any:
    """exp(-||x - z||^2 / sigma^2) in the precision of the points."""
    left, right = X / WIDTH, Z / WIDTH
    out = torch.addmm((right * right).sum(1)[None, :], left, right.T, beta=-1.0, alpha=2.0)
    out -= (left * left).sum(1)[:, None]
    return out.clamp_(max=0.0).exp_()


def _expand(torch: Any, Z: Any, points: Any, weights: Any) -> Any:
    return torch.cat([_values(torch, part, points) @ weights for part in Z.split(1 << 27 >> 18)])


def _plain_gradients(torch: Any, X: Any, y: Any) -> tuple[Any, Any, int]:
    """Conjugate gradients on K + I/gamma for centred targets, in single precision, without a preconditioner."""
    points, mean = X.float(), y.mean()
    target = (y - mean).float()

    def product(v: Any) -> Any:
        parts = list(zip(points.split(TILE), v.split(TILE), strict=True))
        sums = [sum(_values(torch, rows, columns) @ part for columns, part in parts) for rows, _ in parts]
        return torch.cat(sums) + v / GAMMA

    a, r = torch.zeros_like(target), target.clone()
    p, energy = r.clone(), r @ r
    goal, steps = 0.5 * SHARE * float(target.square().mean().sqrt()) * target.numel() ** 0.5, 0
    while float(energy) ** 0.5 > goal and steps < MOST_STEPS:
        Ap = product(p)
        length = energy / (p @ Ap)
        a, r = a + length * p, r - length * Ap
        energy, before = r @ r, energy
        p, steps = r + (energy / before) * p, steps + 1
    return a.double(), mean, steps


def _falkon(torch: Any, X: Any, y: Any, centres: Any) -> tuple[Any, Any]:
    """Falkon (Rudi, Carratino and Rosasco, 2017): preconditioned gradients on (Z'Z + n lambda G) w = Z'y."""
    n, m, mean = X.shape[0], centres.shape[0], y.mean()
    share = 1.0 / (GAMMA * n)
    G = _values(torch, centres, centres)
    eye = torch.eye(m, dtype=G.dtype, device=G.device)
    T = torch.linalg.cholesky(G + 1e-10 * m * eye).mT
    A = torch.linalg.cholesky(T @ T.mT / m + share * eye).mT

    def inverse(v: Any) -> Any:
        return torch.linalg.solve_triangular(T, torch.linalg.solve_triangular(A, v, upper=True), upper=True)

    def adjoint(v: Any) -> Any:
        return torch.linalg.solve_triangular(A.mT, torch.linalg.solve_triangular(T.mT, v, upper=False), upper=False)

    def moments(w: Any, targets: Any) -> Any:
        total = torch.zeros_like(w)
        for rows, part in zip(X.split(TILE), targets.split(TILE), strict=True):
            Z = _values(torch, rows, centres)
            total += Z.mT @ (Z @ w + part)
        return total / n

    none = torch.zeros(n, 1, dtype=X.dtype, device=X.device)

    def operator(v: Any) -> Any:
        w = inverse(v)
        return adjoint(moments(w, none) + share * (G @ w))

    r = adjoint(moments(torch.zeros(m, 1, dtype=X.dtype, device=X.device), (y - mean)[:, None]))
    beta, p, energy = torch.zeros_like(r), r.clone(), (r * r).sum()
    for _ in range(STEPS):
        Ap = operator(p)
        length = energy / (p * Ap).sum()
        beta, r = beta + length * p, r - length * Ap
        energy, before = (r * r).sum(), energy
        p = r + (energy / before) * p
    return inverse(beta)[:, 0], mean


def main(arguments: list[str]) -> int:
    return write_section("all_rows", run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
