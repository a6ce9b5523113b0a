r"""The weighted LS-SVM on sinc, pruned too, on the motorcycle and on the Boston data ([Suykens2002]_ section 5).

*Sinc* with outliers, and with heavy-tailed noise (Fig. 1-6),

.. math:: y_k = \operatorname{sinc}(x_k) + e_k, \qquad k = 1, \dots, 300,

e Gaussian with three outliers, or Student's t with 4 degrees of freedom. The paper shows one data set of each and
states that weights improve the LS-SVM, and that the weighted LS-SVM beats a standard SVM. It prints no numbers.

Rule: "improves" and "beats" hold where the mean squared distance from the true function is smaller on at least three
quarters of the seeds; that the median over the seeds is smaller is judged apart, as the weaker claim. The captions of
Fig. 2 and 5 add that the distribution of the errors becomes Gaussian: "closer to Gaussian" holds where the statistic of
Anderson and Darling (:mod:`substrate.least_squares.error_distribution`) falls on at least three quarters of the seeds,
"Gaussian" where it is below 0.752, the limit at five per cent, on at least three quarters.

:place [Suykens2002]_ section 5: sinc with outliers, sinc with t noise

*Motorcycle*, beside an SVM (Fig. 7-8). The paper shows fits to all rows, at gamma = 2 and sigma = 6.6, beside an SVM
with sigma = 11, epsilon = 0 and C infinite (:math:`10^4` here), and prints no numbers. The captions state that the SVM
suffers more from boundary effects, with oscillatory behaviour, and that weights improve the LS-SVM "in this region",
an enlarged part, "because of the correction for outliers".

Rule: rows are left out in ten folds, different for every seed, and each statement holds on at least three quarters of
the seeds. The boundary is the first and the last tenth of the time axis: the SVM suffers where its mean squared error
there is larger, and oscillates where the total variation of its curve there is larger, in
the median over the folds. The region of the outliers is every tenth of the axis that has a row whose weight in the fit
to all rows is below one: weights improve where the mean absolute error of the rows of the region, left out, is smaller.
Over the whole axis, of which the captions do not speak, the errors are a note.

*Boston housing* (Fig. 9). One random split into 406 and 100 rows; inputs normalised except the binary one, and the
target too, as the size of the printed errors shows; gamma and sigma by ten folds on the training rows.

Rule: "weights improve" holds where the test error is smaller on at least three quarters of the splits; each printed
error, where it lies between our quartiles widened by a tenth of it.

*Pruning* (Algorithm 2, Fig. 10-11): sinc with three outliers, from 300 rows down to 100, 50 and 20. The paper keeps
gamma and sigma as long as possible and states that about 20 support vectors are needed for good generalisation; it
prints no numbers.

Rule: a number of support vectors is enough where the pruned machine, with gamma and sigma searched again when the index
degrades, is no further from the true function than the unweighted LS-SVM on all rows, which the paper calls quite
robust, on at least three quarters of the seeds. Pruning keeps the gain of the weights where this holds against
the weighted machine on all rows within a factor of two.

*Breakdown* (end of section 3): the LS-SVM has better properties than linear least squares, and "the breakdown point is
further improved by applying the weighted LS-SVM afterwards". Sinc with Gaussian noise, where a share of the targets, 0
to 50 %, is raised by two, all to one side, so that errors do not cancel; gamma = 10 and sigma = 1 for all machines.

Rule: a machine has broken down where its mean squared distance from the true function, in the median over the seeds, is
above 0.087, that of the best constant; its breakdown point is the smallest such share. "Improved" holds where that of
the weighted LS-SVM is larger, and where its curve is below that of the LS-SVM at every share from 5 to 25 %.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVR

from problems.displays.canvas import axes_for
from problems.estimators.full.huber import HuberLSSVMRegressor
from problems.estimators.full.ls_svm import LSSVMRegressor
from problems.estimators.full.robust import RobustLSSVMRegressor
from problems.estimators.pruned.ls_svm import PrunedLSSVMRegressor
from problems.reproductions.measured import Claim, Measured, Printed, Round, better, level
from problems.reproductions.study import (
    Study,
    draw_curves,
    draw_spread,
    folds,
    legend_above,
    logarithmic,
    require_certificate,
    standardise,
    tuned_peer,
    tuned_regressor,
)
from substrate.arrays import Array
from substrate.conventions import sigma_to
from substrate.datasets import boston, motorcycle, sinc, sinc_outliers, sinc_student
from substrate.kernels import RBF

__all__ = ["BOSTON", "BREAKDOWN", "HEAVY_TAILS", "MOTORCYCLE", "OUTLIERS", "PRUNING"]

_SIGMAS = (0.5, 0.8, 1.2, 1.8)
_SVR = {
    "C": (0.3, 3.0, 30.0),
    "epsilon": (0.0, 0.1),
    "gamma": tuple(sigma_to("scikit-learn SVM", sigma) for sigma in _SIGMAS),
}
_PLAIN, _WEIGHTED, _SVM = "LS-SVM", "weighted LS-SVM", "SVM"
_BEFORE, _AFTER = "normality statistic, LS-SVM", "normality statistic, weighted LS-SVM"
#: Above it the errors of one Gaussian sample in twenty are.
_GAUSSIAN = 0.752


def _drawn_sinc(draw: Callable[..., Any], seed: int, quick: bool) -> tuple[Array, Array]:
    """Return a training set: 300 rows, or 120 for a quick run."""
    X, y = draw(120 if quick else 300, random_state=seed)
    return X, y


def _sinc_error(model: Any) -> float:
    """Return mean squared distance from the true function on an even grid."""
    points = np.linspace(-5.0, 5.0, 500)[:, None]
    return float(np.mean((model.predict(points) - np.sinc(points[:, 0])) ** 2))


def _sinc_round(draw: Callable[..., Any], seed: int, quick: bool) -> Round:
    X, y = _drawn_sinc(draw, seed, quick)
    splits = folds(seed, 5 if quick else 10)
    plain = tuned_regressor(X, y, _SIGMAS, splits)
    weighted = require_certificate(RobustLSSVMRegressor(plain.kernel_, plain.gamma_).fit(X, y))
    peer = tuned_peer(SVR(), _SVR, X, y, splits)
    errors = {_PLAIN: _sinc_error(plain), _WEIGHTED: _sinc_error(weighted), _SVM: _sinc_error(peer)}
    tests = weighted.measure_normality()
    return Round({**errors, _BEFORE: tests.before.statistic, _AFTER: tests.after.statistic})


def _judge_sinc(measured: Measured) -> tuple[Claim, ...]:
    claims = []
    for against, words in ((_PLAIN, "weights improve the LS-SVM"), (_SVM, "the weighted LS-SVM beats the SVM")):
        weighted, reference = measured.median(_WEIGHTED), measured.median(against)
        claims.append(better(measured, _WEIGHTED, against, words))
        observation = f"{weighted:.3g} against {reference:.3g}"
        rule = f"median of {_WEIGHTED} below that of {against}"
        claims.append(
            Claim(
                says=f"{words}, in the median", kind="ranking", rule=rule, seen=observation, holds=weighted < reference
            )
        )
    claims.append(better(measured, _AFTER, _BEFORE, "weights bring the errors closer to a Gaussian"))
    below = sum(value < _GAUSSIAN for value in measured.of[_AFTER])
    claims.append(
        Claim(
            says="under weights the errors are Gaussian",
            kind="ranking",
            rule=f"the statistic below {_GAUSSIAN} on at least three quarters of the seeds",
            seen=f"on {below} of {measured.seeds}; {measured.summary(_AFTER, 'quartiles')}",
            holds=below >= 0.75 * measured.seeds,
        )
    )
    return tuple(claims)


def _draw_sinc(measured: Measured) -> Any:
    figure, axes = axes_for(None, 1, 2, (11.0, 2.8))
    draw_spread(axes[0], measured, (_PLAIN, _WEIGHTED, _SVM), {}, "mean squared distance from sinc (units of y²)")
    draw_spread(
        axes[1],
        measured,
        (_BEFORE, _AFTER),
        {},
        "Anderson-Darling statistic of the errors (no unit)",
        ("LS-SVM", "weighted"),
    )
    axes[1].axvline(_GAUSSIAN, color="0.4", linewidth=0.8, linestyle=":")
    for part in axes:
        logarithmic(part, "x")
    legend_above(figure, axes[0])
    return figure


_TUNED = (
    "gamma and sigma of the LS-SVM, and C, epsilon and sigma of the SVM, by ten folds (ours with a lower bound; the "
    "paper has epsilon = 0, C = infinity for the SVM). Level of noise and size of outliers are ours."
)
_WORDS = {_WEIGHTED: Printed("best of the three")}
OUTLIERS = Study(
    name="suykens2002-outliers",
    paper="Suykens2002",
    what="sinc with three outliers (Fig. 1-3)",
    settings=_TUNED,
    published=_WORDS,
    seeds=20,
    quick_seeds=2,
    run_seed=partial(_sinc_round, sinc_outliers),
    judge=_judge_sinc,
    draw=_draw_sinc,
)
HEAVY_TAILS = Study(
    name="suykens2002-heavy-tails",
    paper="Suykens2002",
    what="sinc with t noise of 4 degrees of freedom (Fig. 4-6)",
    settings=_TUNED,
    published=_WORDS,
    seeds=20,
    quick_seeds=2,
    run_seed=partial(_sinc_round, sinc_student),
    judge=_judge_sinc,
    draw=_draw_sinc,
)


_MODELS = (_PLAIN, _WEIGHTED, _SVM)
_EDGE, _WAVES, _REGION = ", boundary", ", variation at the boundary", ", region of outliers"


def _motorcycle_machines(X: Array, y: Array) -> dict[str, Any]:
    return {
        _PLAIN: require_certificate(LSSVMRegressor(RBF(6.6), 2.0).fit(X, y)),
        _WEIGHTED: require_certificate(RobustLSSVMRegressor(RBF(6.6), 2.0).fit(X, y)),
        _SVM: SVR(C=1e4, epsilon=0.0, gamma=sigma_to("scikit-learn SVM", 11.0)).fit(X, y),
    }


def _motorcycle_round(seed: int, quick: bool) -> Round:
    X, y = motorcycle()
    time, ends = X[:, 0], np.linspace(X.min(), X.max(), 11)
    tenths = np.clip(np.searchsorted(ends, time, side="right") - 1, 0, 9)
    boundary = (tenths == 0) | (tenths == 9)
    weights = _motorcycle_machines(X, y)[_WEIGHTED].weights_
    region = np.isin(tenths, tenths[weights < 1.0])
    parts = [np.linspace(ends[k], ends[k + 1], 50)[:, None] for k in (0, 9)]
    outputs = {name: np.zeros(y.size) for name in _MODELS}
    waves: dict[str, list[float]] = {name: [] for name in _MODELS}
    for train, test in folds(seed).split(X):
        for name, model in _motorcycle_machines(X[train], y[train]).items():
            outputs[name][test] = model.predict(X[test])
            waves[name].append(sum(float(np.abs(np.diff(model.predict(part))).sum()) for part in parts))
    errors = {name: np.abs(y - f) for name, f in outputs.items()}
    values = {name: float(np.mean(error**2)) for name, error in errors.items()}
    values |= {name + _EDGE: float(np.mean(error[boundary] ** 2)) for name, error in errors.items()}
    values |= {name + _WAVES: float(np.median(waves[name])) for name in _MODELS}
    return Round(values | {name + _REGION: float(errors[name][region].mean()) for name in _MODELS})


def _judge_motorcycle(measured: Measured) -> tuple[Claim, ...]:
    plain, weighted, peer = _MODELS
    improved = "weights improve the LS-SVM where the outliers are"
    return (
        better(measured, weighted + _REGION, plain + _REGION, improved),
        better(measured, plain + _EDGE, peer + _EDGE, "the SVM suffers more at the boundary"),
        better(measured, plain + _WAVES, peer + _WAVES, "the SVM oscillates more at the boundary"),
    )


def _note_motorcycle(measured: Measured) -> tuple[str, ...]:
    wins, ratio = measured.wins(_WEIGHTED, _PLAIN), measured.ratio(_WEIGHTED, _PLAIN)
    return (
        f"Over the whole axis the squared error of the weighted machine is {ratio:.3g} times that of the LS-SVM in the "
        f"median, and smaller on {wins} of {measured.seeds} seeds: the paper does not claim that.",
    )


def _draw_motorcycle(measured: Measured) -> Any:
    figure, axes = axes_for(None, 1, 3, (12.6, 2.8))
    shown = (("mean absolute error, left out (g), outliers", _REGION), ("mean squared error, boundary (g²)", _EDGE))
    for part, (label, suffix) in zip(axes, (*shown, ("variation of the curve, boundary (g)", _WAVES)), strict=True):
        names = [name + suffix for name in _MODELS]
        draw_spread(part, measured, names, {}, label, _MODELS if part is axes[0] else ("", "", ""))
    legend_above(figure, axes[0])
    return figure


MOTORCYCLE = Study(
    name="suykens2002-motorcycle",
    paper="Suykens2002",
    what="weighted LS-SVM and SVM on the motorcycle data (Fig. 7-8)",
    settings="gamma = 2 and sigma = 6.6, and for the SVM sigma = 11 and epsilon = 0, as printed; C is 10000 for "
    "infinity. Judged by what the captions say, in the parts of the axis that they name.",
    published={_WEIGHTED + _REGION: Printed("improves"), _SVM + _WAVES: Printed("oscillatory")},
    seeds=20,
    quick_seeds=2,
    run_seed=_motorcycle_round,
    judge=_judge_motorcycle,
    draw=_draw_motorcycle,
    notes=_note_motorcycle,
)


_PUBLISHED = {_PLAIN: Printed("0.1880", 0.1880), _WEIGHTED: Printed("0.1638", 0.1638)}
_ERRATUM = "[Suykens2002] section 5, Boston housing"
_BINARY = 3  # CHAS


def _boston_round(seed: int, quick: bool) -> Round:
    X, y = boston()
    order = np.random.default_rng(seed).permutation(y.size)
    train, test = order[:150] if quick else order[:406], order[406:]
    binary = X[:, _BINARY].copy()
    X, X_test = standardise(X[train], X[test])
    X[:, _BINARY], X_test[:, _BINARY] = binary[train], binary[test]
    target, target_test = standardise(y[train, None], y[test, None])
    y, y_test = target[:, 0], target_test[:, 0]
    plain = tuned_regressor(X, y, (3.0, 4.5, 7.0), folds(seed, 5 if quick else 10))
    weighted = require_certificate(RobustLSSVMRegressor(plain.kernel_, plain.gamma_).fit(X, y))
    models = {_PLAIN: plain, _WEIGHTED: weighted}
    return Round({name: float(np.mean((y_test - model.predict(X_test)) ** 2)) for name, model in models.items()})


def _judge_boston(measured: Measured) -> tuple[Claim, ...]:
    return (
        better(measured, _WEIGHTED, _PLAIN, "weights improve the LS-SVM", _ERRATUM),
        *(level(measured, name, printed, erratum=_ERRATUM) for name, printed in _PUBLISHED.items()),
    )


def _draw_boston(measured: Measured) -> Any:
    figure, (axes,) = axes_for(None, size=(6.4, 2.4))
    draw_spread(axes, measured, (_PLAIN, _WEIGHTED), _PUBLISHED, "mean squared test error (standardised target)")
    legend_above(figure, axes)
    return figure


BOSTON = Study(
    name="suykens2002-boston",
    paper="Suykens2002",
    what="weighted LS-SVM on the Boston data (Fig. 9)",
    settings="gamma and sigma by ten folds on the training rows, with a lower bound.",
    published=_PUBLISHED,
    seeds=20,
    quick_seeds=2,
    run_seed=_boston_round,
    judge=_judge_boston,
    draw=_draw_boston,
)


_SIZES = (100, 50, 20)
_PLAIN_ALL, _WEIGHTED_ALL = "LS-SVM, all rows", "weighted LS-SVM, all rows"
_PRUNING_ERRATUM = "[Suykens2002] section 5"


def _pruned_to(size: int, retune: bool) -> str:
    return f"{size} rows, gamma and sigma searched again" if retune else f"{size} rows, gamma and sigma kept"


def _pruned_round(seed: int, quick: bool) -> Round:
    X, y = _drawn_sinc(sinc_outliers, seed, quick)
    plain = tuned_regressor(X, y, _SIGMAS, folds(seed, 5 if quick else 10))
    settings: dict[str, Any] = {"kernel": plain.kernel_, "gamma": plain.gamma_}
    errors = {
        _PLAIN_ALL: _sinc_error(plain),
        _WEIGHTED_ALL: _sinc_error(require_certificate(RobustLSSVMRegressor(**settings).fit(X, y))),
    }
    for retune in (False, True):
        few = {**settings, "weighting": "hampel", "reweight": True, "retune": retune}
        for size in _SIZES:
            model = require_certificate(PrunedLSSVMRegressor(**few, n_support=size).fit(X, y))
            errors[_pruned_to(size, retune)] = _sinc_error(model)
    return Round(errors)


def _judge_pruned(measured: Measured) -> tuple[Claim, ...]:
    claims = []
    for size in _SIZES:
        says, erratum = f"{size} support vectors are enough", _PRUNING_ERRATUM if size < 100 else ""
        claims.append(better(measured, _pruned_to(size, True), _PLAIN_ALL, says, erratum))
    ratio = measured.ratio(_pruned_to(20, True), _WEIGHTED_ALL)
    rule = "error with 20 rows at most twice that of the weighted machine on all rows, in the median"
    observation = f"{ratio:.3g} times"
    claims.append(
        Claim(
            says="20 keep what the weights gain",
            kind="ranking",
            rule=rule,
            seen=observation,
            holds=ratio <= 2.0,
            erratum=_PRUNING_ERRATUM,
        )
    )
    return tuple(claims)


def _draw_pruned(measured: Measured) -> Any:
    figure, (axes,) = axes_for(None, size=(7.2, 3.8))
    names = list(measured.of)
    draw_spread(axes, measured, names, {}, "mean squared distance from sinc (units of y, squared)")
    logarithmic(axes, "x")
    legend_above(figure, axes)
    return figure


PRUNING = Study(
    name="suykens2002-pruning",
    paper="Suykens2002",
    what="pruning the weighted LS-SVM on sinc with outliers (Fig. 10-11)",
    settings="gamma and sigma of the machine on all rows by ten folds, with a lower bound; pruned in steps of 5 "
    "%, weights "
    "recomputed at every step.",
    published={_pruned_to(20, True): Printed('"about 20" are needed')},
    seeds=20,
    quick_seeds=2,
    run_seed=_pruned_round,
    judge=_judge_pruned,
    draw=_draw_pruned,
)


_SHARES = tuple(range(0, 55, 5))
_ITERATED, _BY_MAD, _HUBER = "iterated LS-SVM", "iterated LS-SVM, scale by MAD", "Huber LS-SVM"
_RAISED = 2.0
#: The mean squared distance of the best constant from sinc on the interval.
_BROKEN = 0.087
_JUDGED = (5, 25)


def _contaminated_machines() -> dict[str, Any]:
    kernel, gamma = RBF(1.0), 10.0
    return {
        _PLAIN: LSSVMRegressor(kernel, gamma),
        _WEIGHTED: RobustLSSVMRegressor(kernel, gamma),
        _ITERATED: RobustLSSVMRegressor(kernel, gamma, max_reweightings=50, weights_tol=1e-2),
        _BY_MAD: RobustLSSVMRegressor(kernel, gamma, scale="mad", max_reweightings=50, weights_tol=1e-2),
        _HUBER: HuberLSSVMRegressor(kernel, gamma),
    }


def _breakdown_round(seed: int, quick: bool) -> Round:
    n = 100 if quick else 300
    X, y = sinc(n, random_state=seed)
    order = np.random.default_rng([seed, 1]).permutation(n)
    curves: dict[str, list[float]] = {name: [] for name in _contaminated_machines()}
    for share in _SHARES:
        raised = y.copy()
        raised[order[: round(0.01 * share * n)]] += _RAISED
        for name, model in _contaminated_machines().items():
            with warnings.catch_warnings():
                # weights of half a sample need not settle, and the last of them are judged
                warnings.filterwarnings("ignore", "the support values still changed", ConvergenceWarning)
                curves[name].append(_sinc_error(require_certificate(model.fit(X, raised))))
    at = {f"{name}, {share} %": curve[_SHARES.index(share)] for name, curve in curves.items() for share in (0, 20, 40)}
    return Round(at, {name: (_SHARES, curve) for name, curve in curves.items()})


def _breakdown_point(measured: Measured, name: str) -> float:
    """Return the smallest share, in per cent, at which the median error is that of a constant; infinite for none."""
    curve = measured.curves[name]
    return next((x for x, error in zip(curve.x, curve.middle, strict=True) if error > _BROKEN), np.inf)


def _judge_breakdown(measured: Measured) -> tuple[Claim, ...]:
    plain, weighted = (measured.curves[name].middle for name in (_PLAIN, _WEIGHTED))
    first, last = (_breakdown_point(measured, name) for name in (_PLAIN, _WEIGHTED))
    judged = [k for k, share in enumerate(_SHARES) if _JUDGED[0] <= share <= _JUDGED[1]]
    below = sum(weighted[k] < plain[k] for k in judged)
    return (
        Claim(
            says="weights improve the breakdown point",
            kind="ranking",
            rule=f"the smallest share with a median error above {_BROKEN:g} is larger",
            seen=f"{_percent(last)} against {_percent(first)}",
            holds=last > first,
        ),
        Claim(
            says="weights improve the fit of contaminated targets",
            kind="ranking",
            rule=f"the median curve below the other at every share from {_JUDGED[0]} to {_JUDGED[1]} %",
            seen=f"at {below} of {len(judged)} shares",
            holds=below == len(judged),
        ),
    )


def _percent(share: float) -> str:
    return f"{share:g} %" if np.isfinite(share) else f"above {_SHARES[-1]} %"


def _note_breakdown(measured: Measured) -> tuple[str, ...]:
    points = ", ".join(f"{name} {_percent(_breakdown_point(measured, name))}" for name in measured.curves)
    return (
        f"Breakdown points, of targets that are all raised: {points}. A quarter of raised targets moves a quartile, "
        "and so the scale (15).",
    )


def _draw_breakdown(measured: Measured) -> Any:
    figure, (axes,) = axes_for(None, size=(6.8, 4.0))
    draw_curves(axes, measured, list(measured.curves), "targets raised by 2 (%)", "squared distance from sinc (y²)")
    axes.axhline(_BROKEN, color="0.4", linewidth=0.8, linestyle=":")
    axes.annotate("best constant", (0.0, _BROKEN), ha="left", va="bottom", fontsize="small")
    logarithmic(axes, "y")
    return figure


BREAKDOWN = Study(
    name="suykens2002-breakdown",
    paper="Suykens2002",
    what="error against the share of contaminated targets (end of section 3)",
    settings="gamma = 10 and sigma = 1, noise of deviation 0.1, raised targets by 2: all ours, the paper shows no such "
    "curve. Beside Algorithm 1, its iteration, that with the other scale after (15), and Huber's loss with its "
    "threshold from the errors.",
    published={f"{_WEIGHTED}, 20 %": Printed("improved")},
    seeds=20,
    quick_seeds=1,
    run_seed=_breakdown_round,
    judge=_judge_breakdown,
    draw=_draw_breakdown,
    notes=_note_breakdown,
)
