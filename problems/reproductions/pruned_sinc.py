r"""Pruning of the weighted LS-SVM ([Suykens2002]_ section 5, Algorithm 2, Fig. 10-11).

The sinc data with three outliers, from 300 rows down to 100, 50 and 20. The paper keeps gamma and sigma as long as
possible and states that about 20 support vectors are needed for good generalisation; it prints no numbers.

Rule: a number of support vectors is enough where the pruned machine, with gamma and sigma searched again when the index
degrades, is no further from the true function than the unweighted LS-SVM on all rows, which the paper calls quite
robust, on at least three quarters of the seeds. Pruning keeps the gain of the weights where this holds against
the weighted machine on all rows within a factor of two.
"""

from typing import Any

from problems.displays.canvas import axes_for
from problems.estimators.full.robust import RobustLSSVMRegressor
from problems.estimators.pruned.ls_svm import PrunedLSSVMRegressor
from problems.reproductions.measured import Claim, Measured, Printed, Round, better
from problems.reproductions.robust import SIGMAS, drawn_sinc, sinc_error
from problems.reproductions.study import Study, draw_spread, folds, held, legend_above, logarithmic, tuned_regressor
from substrate.datasets import sinc_outliers

__all__ = ["PRUNING"]

_SIZES = (100, 50, 20)
_PLAIN, _WEIGHTED = "LS-SVM, all rows", "weighted LS-SVM, all rows"
_ERRATUM = "[Suykens2002] section 5"


def _named(size: int, retune: bool) -> str:
    return f"{size} rows, gamma and sigma searched again" if retune else f"{size} rows, gamma and sigma kept"


def _one(seed: int, quick: bool) -> Round:
    X, y = drawn_sinc(sinc_outliers, seed, quick)
    plain = tuned_regressor(X, y, SIGMAS, folds(seed, 5 if quick else 10))
    own: dict[str, Any] = {"kernel": plain.kernel_, "gamma": plain.gamma_}
    found = {_PLAIN: sinc_error(plain), _WEIGHTED: sinc_error(held(RobustLSSVMRegressor(**own).fit(X, y)))}
    for retune in (False, True):
        few = {**own, "weighting": "hampel", "reweight": True, "retune": retune}
        for size in _SIZES:
            model = held(PrunedLSSVMRegressor(**few, n_support=size).fit(X, y))
            found[_named(size, retune)] = sinc_error(model)
    return Round(found)


def _judge(measured: Measured) -> tuple[Claim, ...]:
    claims = [
        better(
            measured, _named(size, True), _PLAIN, f"{size} support vectors are enough", _ERRATUM if size < 100 else ""
        )
        for size in _SIZES
    ]
    ratio = measured.ratio(_named(20, True), _WEIGHTED)
    rule = "error with 20 rows at most twice that of the weighted machine on all rows, in the median"
    seen = f"{ratio:.3g} times"
    claims.append(Claim("20 keep what the weights gain", "ranking", rule, seen, ratio <= 2.0, _ERRATUM))
    return tuple(claims)


def _draw(measured: Measured) -> Any:
    figure, (axes,) = axes_for(None, size=(7.2, 3.8))
    names = list(measured.of)
    draw_spread(axes, measured, names, {}, "mean squared distance from sinc (units of y, squared)")
    logarithmic(axes, "x")
    legend_above(figure, axes)
    return figure


PRUNING = Study(
    "suykens2002-pruning",
    "Suykens2002",
    "pruning the weighted LS-SVM on sinc with outliers (Fig. 10-11)",
    "gamma and sigma of the machine on all rows by ten folds, with a lower bound; pruned in steps of 5 %, weights "
    "recomputed at every step.",
    {_named(20, True): Printed('"about 20" are needed')},
    20,
    2,
    _one,
    _judge,
    _draw,
)
