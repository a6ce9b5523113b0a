r"""Sinc with outliers, and with heavy-tailed noise ([Suykens2002]_ section 5, Fig. 1-6).

.. math:: y_k = \operatorname{sinc}(x_k) + e_k, \qquad k = 1, \dots, 300,

e Gaussian with three outliers, or Student's t with 4 degrees of freedom. The paper shows one data set of each and says
that weights improve the LS-SVM, and that the weighted LS-SVM beats a standard SVM. It prints no numbers.

Rule: "improves" and "beats" hold where the mean squared distance from the true function is smaller on at least three
quarters of the seeds; that the median over the seeds is smaller is judged apart, as the weaker claim.

:place [Suykens2002]_ section 5: sinc with outliers, sinc with t noise
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.svm import SVR

from problems.displays.canvas import axes_for
from problems.estimators.robust import RobustLSSVMRegressor
from problems.reproductions.drawing import draw_spread, legend_above, logarithmic
from problems.reproductions.measured import Measured, Printed, Round
from problems.reproductions.study import Study, held
from problems.reproductions.tuning import folds, tuned_peer, tuned_regressor
from problems.reproductions.verdict import Claim, better
from substrate.arrays import Array
from substrate.conventions import sigma_to
from substrate.datasets import sinc_outliers, sinc_student

__all__ = ["HEAVY_TAILS", "OUTLIERS", "SIGMAS", "drawn_sinc", "sinc_error"]

SIGMAS = (0.5, 0.8, 1.2, 1.8)
_SVR = {
    "C": (0.3, 3.0, 30.0),
    "epsilon": (0.0, 0.1),
    "gamma": tuple(sigma_to("scikit-learn SVM", sigma) for sigma in SIGMAS),
}
_PLAIN, _WEIGHTED, _SVM = "LS-SVM", "weighted LS-SVM", "SVM"


def drawn_sinc(draw: Callable[..., Any], seed: int, quick: bool) -> tuple[Array, Array]:
    """A training set: 300 rows, or 120 for a quick run."""
    X, y = draw(120 if quick else 300, random_state=seed)
    return X, y


def sinc_error(model: Any) -> float:
    """Mean squared distance from the true function on an even grid."""
    points = np.linspace(-5.0, 5.0, 500)[:, None]
    return float(np.mean((model.predict(points) - np.sinc(points[:, 0])) ** 2))


def _one(draw: Callable[..., Any], seed: int, quick: bool) -> Round:
    X, y = drawn_sinc(draw, seed, quick)
    splits = folds(seed, 5 if quick else 10)
    plain = tuned_regressor(X, y, SIGMAS, splits)
    weighted = held(RobustLSSVMRegressor(plain.kernel_, plain.gamma_).fit(X, y))
    peer = tuned_peer(SVR(), _SVR, X, y, splits)
    return Round({_PLAIN: sinc_error(plain), _WEIGHTED: sinc_error(weighted), _SVM: sinc_error(peer)})


def _judge(measured: Measured) -> tuple[Claim, ...]:
    claims = []
    for against, words in ((_PLAIN, "weights improve the LS-SVM"), (_SVM, "the weighted LS-SVM beats the SVM")):
        one, other = measured.median(_WEIGHTED), measured.median(against)
        claims.append(better(measured, _WEIGHTED, against, words))
        seen = f"{one:.3g} against {other:.3g}"
        rule = f"median of {_WEIGHTED} below that of {against}"
        claims.append(Claim(f"{words}, in the median", "ranking", rule, seen, one < other))
    return tuple(claims)


def _draw(measured: Measured) -> Any:
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
    "suykens2002-outliers", "Suykens2002", "sinc with three outliers (Fig. 1-3)", _TUNED, _WORDS, 20, 2,
    partial(_one, sinc_outliers), _judge, _draw,
)  # fmt: skip
HEAVY_TAILS = Study(
    "suykens2002-heavy-tails", "Suykens2002", "sinc with t noise of 4 degrees of freedom (Fig. 4-6)", _TUNED, _WORDS,
    20, 2, partial(_one, sinc_student), _judge, _draw,
)  # fmt: skip
