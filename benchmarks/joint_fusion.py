"""``fuse`` over two and three weights, against a grid, random search and SCIP; one weight by two kinds of bounds."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from unittest.mock import patch

import cvxpy as cp
import numpy as np

from benchmarks import fusion as one_weight
from benchmarks.grouped_complementarity import bounds_by_scip
from benchmarks.table import Headline, Table, measure_rows, yes_no
from substrate import Machine, Substrate, fuse
from substrate.arrays import Array
from substrate.fusion.affine_terms import AffineTerms
from substrate.fusion.box import check_box
from substrate.fusion.determined_errors import DeterminedErrors
from substrate.fusion.joint import _fold
from substrate.fusion.knot_store import KnotStore
from substrate.fusion.validation import check_validation
from substrate.kernels import RBF, Componentwise

__all__ = ["run"]

GAPS = (1e-1, 1e-2, 1e-3)
#: Cut-offs that keep two and four coordinates of every input, as long as there are more rows than that.
COARSE, FINE = 1e-2, 1e-5
#: Upper end of a weight, in units of the length of the centred targets.
TOP = 8.0
POINTS, SEEDS = 30, 3
TINY, TINY_ROWS, SCIP_SECONDS = (7, 2), 5, 30.0

Built = tuple[Any, tuple[Any, ...], dict[Any, tuple[float, float]], tuple[Array, Array]]


def length(y: Array) -> float:
    return float(np.linalg.norm(y - y.mean()))


def groups(n: int, d: int, cutoff: float, count: int, n_val: int) -> Built:
    """(a) One weight of maximal variation for each group of inputs."""
    X, y, X_val, y_val = one_weight.data(n, d, n_val)
    s = Substrate(Componentwise(RBF(1.0)), X, y, cutoff=cutoff)
    rho = tuple(cp.Parameter(nonneg=True, name=f"rho{k + 1}") for k in range(count))
    parts = np.array_split(np.arange(d), count)
    penalty = sum(weight * cp.sum(s.maximal_variation[part]) for weight, part in zip(rho, parts, strict=True))
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + penalty)
    return machine, rho, dict.fromkeys(rho, (0.0, TOP * length(y))), (X_val, y_val)


def l1_and_ridge(n: int) -> Built:
    """(b) The L1 norm of the support values, up to where they vanish, and a ridge."""
    X, y, X_val, y_val = one_weight.data(n, 4, n)
    s = Substrate(RBF(1.0), X, y)
    zeta, tau = cp.Parameter(nonneg=True, name="zeta"), cp.Parameter(nonneg=True, name="tau")
    loss = 0.5 * cp.sum_squares(s.e) + 0.5 * tau * s.squared_norm
    slopes = RBF(1.0)(X) @ (y - y.mean())
    top = 0.5 * float(slopes.max() - slopes.min())
    machine = Machine(s, minimize=loss + zeta * cp.norm1(s.alpha))
    return machine, (zeta, tau), {zeta: (0.0, top), tau: (1e-2, 1e2)}, (X_val, y_val)


def variation_and_ridge(n: int, d: int) -> Built:
    """(c) One weight of maximal variation and a ridge."""
    X, y, X_val, y_val = one_weight.data(n, d, n)
    s = Substrate(Componentwise(RBF(1.0)), X, y, cutoff=FINE)
    rho, tau = cp.Parameter(nonneg=True, name="rho"), cp.Parameter(nonneg=True, name="tau")
    loss = 0.5 * cp.sum_squares(s.e) + 0.5 * tau * s.squared_norm
    machine = Machine(s, minimize=loss + rho * cp.sum(s.maximal_variation))
    return machine, (rho, tau), {rho: (0.0, TOP * length(y)), tau: (1e-3, 10.0)}, (X_val, y_val)


@dataclass(frozen=True, slots=True)
class Case:
    """A machine to fuse, solves of the trial to each gap, the budget, and what is affordable beside it."""

    title: str
    build: Callable[[], Built]
    trial: tuple[int | None, ...]
    budget: int = 2000
    grid: bool = True
    seeds: int = SEEDS


QUICK = (
    Case("(a) two groups, N = 30, d = 5", lambda: groups(30, 5, COARSE, 2, 30), (78, 107, 161)),
    Case("(b) L1 and ridge, N = 30", lambda: l1_and_ridge(30), (106, 237, 327)),
)
CASES = (
    QUICK[0],
    Case("(a) two groups, N = 30, d = 5", lambda: groups(30, 5, FINE, 2, 30), (111, 173, 245)),
    Case("(a) two groups, N = 30, d = 10", lambda: groups(30, 10, FINE, 2, 30), (77, 128, 178)),
    Case("(a) two groups, N = 60, d = 10", lambda: groups(60, 10, FINE, 2, 60), (163, 242, 325), seeds=0),
    Case("(a) two groups, N = 100, d = 25", lambda: groups(100, 25, COARSE, 2, 100), (160, 257, 415), 420, False),
    QUICK[1],
    Case("(b) L1 and ridge, N = 60", lambda: l1_and_ridge(60), (77, 150, 228)),
    Case("(c) variation and ridge, N = 30, d = 5", lambda: variation_and_ridge(30, 5), (88, 129, 185)),
    Case("(c) variation and ridge, N = 60, d = 10", lambda: variation_and_ridge(60, 10), (140, 211, 316), seeds=0),
    Case("three groups, N = 30, d = 6", lambda: groups(30, 6, COARSE, 3, 30), (155, 243, 376), 1000, False),
    Case("three groups, N = 60, d = 9", lambda: groups(60, 9, COARSE, 3, 60), (287, 522, 902), 910, False),
    Case("three groups, N = 30, d = 6", lambda: groups(30, 6, FINE, 3, 30), (1117, None, None), 1120, False),
)


@dataclass
class Watch:
    """Solves and CPU seconds at which a search first met each gap."""

    start: float = field(default_factory=time.process_time)
    met: dict[float, tuple[int, float]] = field(default_factory=dict)

    def __call__(self, solves: int, best: float, lower: float) -> None:
        for gap in GAPS:
            if best - lower <= gap * best:
                self.met.setdefault(gap, (solves, time.process_time() - self.start))

    def cell(self, gap: float) -> str:
        return "{} / {:.1f}".format(*self.met[gap]) if gap in self.met else "not reached"


def solver_of(built: Built) -> KnotStore:
    """Return the solver of the search, without its bounds: the quickest one there is for a peer."""
    machine, over, box, validation = built
    terms = AffineTerms.of(machine.problem, list(over))
    names = [one.name() for one in over]
    ends = check_box(box, names, names[terms.ridge] if terms.ridge >= 0 else None)
    return KnotStore([_fold(machine, terms, check_validation(machine, *validation), ends)])


def space_values(ends: tuple[float, float], shares: Array) -> Array:
    """Return values of a weight, geometric from a millionth of the upper end on; the smallest stands for zero."""
    low, high = ends
    values = np.asarray(high * (max(low / high, 1e-6)) ** (1.0 - shares))
    return np.where(shares == 0.0, low, values)


def least_error(built: Built, shares: Array) -> tuple[float, float]:
    """Return the smallest validation error of a table of places in the box, one row each, and CPU seconds."""
    start = time.process_time()
    store = solver_of(built)
    corners = np.column_stack([space_values(ends, s) for ends, s in zip(built[2].values(), shares.T, strict=True)])
    for corner in corners:
        store.add(tuple(map(float, corner)))
    return float(store.squares.min()) / built[3][1].size, time.process_time() - start


def compare(built: Built, solves: int, error: float, seeds: int) -> tuple[str, str, str]:
    """Return seconds and excess of a grid, and the median excess of random search with as many solves."""
    sides = np.linspace(0.0, 1.0, POINTS)
    grid, seconds = least_error(built, np.stack(np.meshgrid(sides, sides), axis=-1).reshape(-1, 2))
    drawn = [np.random.default_rng(seed).uniform(size=(solves, 2)) for seed in range(seeds)]
    tried = [least_error(built, shares)[0] for shares in drawn]
    excess = f"{100.0 * (median(tried) / error - 1.0):+.2f} %" if tried else ""
    return f"{seconds:.1f}", f"{100.0 * (grid / error - 1.0):+.2f} %", excess


def row(case: Case, shortfalls: list[str], summary: list[Headline], grid: bool) -> tuple[str, ...]:
    built = machine, over, box, validation = case.build()
    size = machine._compiled[0].z.size
    watch = Watch()
    found = fuse(machine, over=over, validation=validation, box=box, gap=GAPS[-1], budget=case.budget, progress=watch)
    asked = [count for count in case.trial if count is not None]
    missed = [gap for gap, most in zip(GAPS, asked, strict=False) if watch.met.get(gap, (np.inf,))[0] > most]
    if missed:
        counts = ", ".join(f"{most} to {gap:g}" for gap, most in zip(GAPS, asked, strict=False) if gap in missed)
        shortfalls.append(f"{case.title}, {size} coordinates: the trial needed {counts}; gap reached {found.gap:.1e}.")
    gap, most = GAPS[len(asked) - 1], asked[-1]
    solves = watch.met.get(gap, (np.inf,))[0]
    work = f"weights with proof: {case.title}, {size} coordinates, to {gap:g}"
    summary.append(Headline(work, "solves of the trial", solves / most, most=1.0))
    others = compare(built, len(found.path), found.validation_error, case.seeds) if grid else ("", "", "")
    target = "≤ " + " / ".join(map(str, asked))
    return (
        case.title,
        str(size),
        *(watch.cell(gap) for gap in GAPS),
        f"{found.gap:.1e}",
        *others,
        target,
        yes_no(not missed),
    )


def _in_worst_direction(reach: DeterminedErrors, u: Array, tau: float) -> tuple[float, Array]:
    """Return the largest sigma of all directions, times the size of one: what a chord has that knows none."""
    return reach.largest(tau) * float(np.linalg.norm(u)), reach._single(u, 0)[1]


def one_weight_row(n: int, d: int, n_val: int, shortfalls: list[str]) -> tuple[str, ...]:
    """Knots of one weight by both bounds, and by that of the chord alone."""
    X, y, X_val, y_val = one_weight.data(n, d, n_val)
    machine, rho = one_weight.machine_of(X, y)
    watch = Watch()
    found = fuse(machine, over=rho, validation=(X_val, y_val), gap=GAPS[-1], progress=watch)
    with patch.object(DeterminedErrors, "along", _in_worst_direction):
        before = fuse(machine, over=rho, validation=(X_val, y_val), gap=GAPS[-1])
    met = len(found.path) <= len(before.path)
    if not met:
        shortfalls.append(f"one weight, N = {n}, d = {d}: {len(before.path)} knots by chords alone.")
    return (
        f"one weight, N = {n}, d = {d}",
        str(machine._compiled[0].z.size),
        *(watch.cell(gap) for gap in GAPS),
        f"{found.gap:.1e}",
        "",
        "",
        "",
        f"≤ {len(before.path)} by chords",
        yes_no(met),
    )


def run(quick: bool) -> Table:
    def measure(case: Case, shortfalls: list[str], summary: list[Headline]) -> tuple[str, ...]:
        return row(case, shortfalls, summary, case.grid and not quick)

    rows, shortfalls, summary = measure_rows(QUICK if quick else CASES, measure)
    for n, d in one_weight.QUICK if quick else one_weight.SIZES:
        rows.append(one_weight_row(n, d, n, shortfalls))
    rows.append(one_weight_row(*one_weight.TINY, 5, shortfalls))
    return Table(
        "Fusion: two and three weights with proof",
        "`fuse` over several weights to a relative gap of 1e-3, on the additive function of [Pelckmans2005] (31) with "
        "as many validation rows as training rows: (a) one weight of maximal variation for each group of inputs, (b) "
        "the L1 norm of the support values and a ridge, (c) maximal variation and a ridge. Entries are solves / CPU "
        "seconds at which one search had met each gap, one BLAS thread; targets are the solves of a trial of the "
        "method in plain numpy, on other data of these sizes, and the budget of the largest cases is near them. A grid "
        f"of {POINTS} x {POINTS} and random search with as many solves as ours (median of {SEEDS} seeds) use the "
        "solver of the search, without bounds, and prove nothing; the excess is of their best validation error over "
        "ours. The last rows are searches over one weight; their target is the number of knots by chords alone. "
        f"{by_scip(quick)}",
        (
            "case",
            "coordinates",
            "to 0.1",
            "to 0.01",
            "to 0.001",
            "gap reached",
            "grid, s",
            "excess of the grid",
            "excess of random search",
            "target",
            "met",
        ),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )


def by_scip(quick: bool) -> str:
    """Return what SCIP does with (28) over the same box, in a sentence."""
    sentences = []
    for n, d, n_val, limit in ((*TINY, TINY_ROWS, 2.0 * SCIP_SECONDS), *([] if quick else [(30, 5, 30, SCIP_SECONDS)])):
        machine, over, box, validation = groups(n, d, COARSE, 2, n_val)
        start = time.process_time()
        ours = fuse(machine, over=over, validation=validation, box=box, gap=GAPS[-1])
        seconds = time.process_time() - start
        X, y, _, _ = one_weight.data(n, d, n_val)
        other = bounds_by_scip(X, y, validation, RBF(1.0), TOP, COARSE, limit)
        ended = f"ends after {other.seconds:.1f} s" if other.status == "optimal" else f"does not end in {limit:g} s"
        sentences.append(
            f"at N = {n}, d = {d} it {ended} (error {other.error:.6g}, bound {other.lower_bound:.6g}; `fuse`: "
            f"{len(ours.path)} solves, {seconds:.1f} s, error {ours.validation_error:.6g}, "
            f"bound {ours.lower_bound:.6g})"
        )
    return f"SCIP on (28), with complementarity constraints and two weights in the same box: {'; '.join(sentences)}."
