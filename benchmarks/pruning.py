"""Pruning and robust fits, in numbers of plain fits."""

from collections.abc import Callable
from functools import partial

from benchmarks.data import COLUMNS, regression_data
from benchmarks.measure import interleaved
from benchmarks.regression_fit import GAMMA, KERNEL
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor, PrunedLSSVMRegressor, RobustLSSVMRegressor

__all__ = ["run"]

SIZES: dict[int, int] = {1000: 7, 2000: 3}
QUICK: dict[int, int] = {1000: 1}
#: A kernel matrix once, two factorisations: less than two fits.
MOST_ROBUST = 2.0
#: Steps of 5 % all the way down: refits of shrinking size would take 1/(1 - 0.95^3) = 7.0 fits.
MOST_STEPS = 8.0
#: One row at a time, O(N^3) in all: the ratio must not grow with N.
MOST_ONE_BY_ONE = 15.0


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for n, repeats in (QUICK if quick else SIZES).items():
        X, y = regression_data(n)
        few = {"kernel": KERNEL, "gamma": GAMMA, "n_support": 2}
        models = {
            "plain": LSSVMRegressor(kernel=KERNEL, gamma=GAMMA),
            "robust": RobustLSSVMRegressor(kernel=KERNEL, gamma=GAMMA),
            "5 %": PrunedLSSVMRegressor(**few),
            "5 %, leave-one-out": PrunedLSSVMRegressor(**few, cv="loo"),
            "one at a time": PrunedLSSVMRegressor(**few, step=1),
            "5 %, reweighted": PrunedLSSVMRegressor(**few, weighting="hampel", reweight=True),
        }
        contenders: dict[str, Callable[[], object]] = {name: partial(m.fit, X, y) for name, m in models.items()}
        t = interleaved(contenders, repeats)
        assert all(model.certificate_.holds for model in models.values())
        targets = {
            "robust": MOST_ROBUST,
            "5 %": MOST_STEPS,
            "5 %, leave-one-out": MOST_STEPS,
            "one at a time": MOST_ONE_BY_ONE,
        }
        for name, seconds in t.items():
            ratio, most = seconds / t["plain"], targets.get(name)
            met = "" if most is None else yes_no(ratio <= most)
            rows.append((str(n), name, f"{seconds:.3f}", f"{ratio:.2f}", "" if most is None else f"≤ {most:g}", met))
            if most is not None:
                summary.append(Headline(f"{name}, N = {n}", "one plain fit", ratio, most=most))
            if met == "no":
                shortfalls.append(f"N = {n}, {name}: {ratio:.2f} plain fits.")
    return Table(
        "Robust and pruned LS-SVMs, in plain fits",
        f"On {COLUMNS} columns: `LSSVMRegressor(RBF(sqrt(10)), gamma=2).fit`; the robust fit, whose kernel matrix is "
        "computed once for two factorisations; and pruning to two support vectors, every machine on the path scored on "
        "all rows: by down-dating, or, with weights computed again, by two refits per step. Median CPU seconds.",
        ("N", "model", "s", "in plain fits", "target", "met"),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
