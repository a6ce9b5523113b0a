r"""The weighted LS-SVM on sinc, pruned too, on the motorcycle and on the Boston data ([Suykens2002]_ section 5).

*Sinc* with outliers, and with heavy-tailed noise (Fig. 1-6),

.. math:: y_k = \operatorname{sinc}(x_k) + e_k, \qquad k = 1, \dots, 300,

e Gaussian with three outliers, or Student's t with 4 degrees of freedom. The paper shows one data set of each and
states that weights improve the LS-SVM, and that the weighted LS-SVM beats a standard SVM. It prints no numbers.

Rule: "improves" and "beats" hold where the mean squared distance from the true function is smaller on at least three
quarters of the seeds; that the median over the seeds is smaller is judged apart, as the weaker claim.

:place [Suykens2002]_ section 5: sinc with outliers, sinc with t noise

*Motorcycle*, beside an SVM (Fig. 7-8). The paper shows fits to all rows, at gamma = 2 and sigma = 6.6, beside an SVM
with sigma = 11, epsilon = 0 and C infinite (:math:`10^4` here). It states that weights improve the LS-SVM in parts of
the range, and that the SVM suffers more at the boundary; it prints no numbers.

Rule: rows are left out in ten folds. "Improves" holds where the error over all rows is smaller on at least three
quarters of the seeds, each of which has its own folds (the paper does not delimit the parts it means); "suffers at
the boundary" where the error of the SVM over the first tenth and the last tenth of the time axis is larger than that of
the LS-SVM on at least three quarters.

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
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.svm import SVR

from problems.displays.canvas import axes_for
from problems.estimators.full.ls_svm import LSSVMRegressor
from problems.estimators.full.robust import RobustLSSVMRegressor
from problems.estimators.pruned.ls_svm import PrunedLSSVMRegressor
from problems.reproductions.measured import Claim, Measured, Printed, Round, better, level
from problems.reproductions.study import (
    Study,
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
from substrate.datasets import boston, motorcycle, sinc_outliers, sinc_student
from substrate.kernels import RBF

__all__ = ["BOSTON", "HEAVY_TAILS", "MOTORCYCLE", "OUTLIERS", "PRUNING"]

_SIGMAS = (0.5, 0.8, 1.2, 1.8)
_SVR = {
    "C": (0.3, 3.0, 30.0),
    "epsilon": (0.0, 0.1),
    "gamma": tuple(sigma_to("scikit-learn SVM", sigma) for sigma in _SIGMAS),
}
_PLAIN, _WEIGHTED, _SVM = "LS-SVM", "weighted LS-SVM", "SVM"


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
    return Round({_PLAIN: _sinc_error(plain), _WEIGHTED: _sinc_error(weighted), _SVM: _sinc_error(peer)})


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
    return tuple(claims)


def _draw_sinc(measured: Measured) -> Any:
    figure, (axes,) = axes_for(None, size=(6.4, 2.8))
    draw_spread(axes, measured, (_PLAIN, _WEIGHTED, _SVM), {}, "mean squared distance from sinc (units of y, squared)")
    logarithmic(axes, "x")
    legend_above(figure, axes)
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
_EDGE = ", boundary"


def _motorcycle_round(seed: int, quick: bool) -> Round:
    X, y = motorcycle()
    outputs = {name: np.zeros(y.size) for name in _MODELS}
    for train, test in folds(seed).split(X):
        models = (
            require_certificate(LSSVMRegressor(RBF(6.6), 2.0).fit(X[train], y[train])),
            require_certificate(RobustLSSVMRegressor(RBF(6.6), 2.0).fit(X[train], y[train])),
            SVR(C=1e4, epsilon=0.0, gamma=sigma_to("scikit-learn SVM", 11.0)).fit(X[train], y[train]),
        )
        for name, model in zip(_MODELS, models, strict=True):
            outputs[name][test] = model.predict(X[test])
    time, width = X[:, 0], np.ptp(X[:, 0])
    edge = (time < time.min() + 0.1 * width) | (time > time.max() - 0.1 * width)
    squares = {name: (y - f) ** 2 for name, f in outputs.items()}
    whole = {name: float(square.mean()) for name, square in squares.items()}
    return Round(whole | {name + _EDGE: float(square[edge].mean()) for name, square in squares.items()})


def _judge_motorcycle(measured: Measured) -> tuple[Claim, ...]:
    plain, weighted, peer = _MODELS
    return (
        better(measured, weighted, plain, "weights improve the LS-SVM (as a whole; the paper: in parts)"),
        better(measured, plain + _EDGE, peer + _EDGE, "the SVM suffers more at the boundary"),
    )


def _draw_motorcycle(measured: Measured) -> Any:
    figure, axes = axes_for(None, 1, 2, (9.6, 2.8))
    label = "mean squared error, left out (g²)"
    draw_spread(axes[0], measured, _MODELS, {}, f"{label}, all rows")
    draw_spread(axes[1], measured, [name + _EDGE for name in _MODELS], {}, f"{label}, boundary", ("", "", ""))
    legend_above(figure, axes[0])
    return figure


MOTORCYCLE = Study(
    name="suykens2002-motorcycle",
    paper="Suykens2002",
    what="weighted LS-SVM and SVM on the motorcycle data (Fig. 7-8)",
    settings="gamma = 2 and sigma = 6.6, and for the SVM sigma = 11 and epsilon = 0, as printed; C is 10000 for "
    "infinity.",
    published={_MODELS[1]: Printed("better in parts of the range")},
    seeds=20,
    quick_seeds=2,
    run_seed=_motorcycle_round,
    judge=_judge_motorcycle,
    draw=_draw_motorcycle,
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
