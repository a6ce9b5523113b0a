r"""Weighted LS-SVM and SVM on the motorcycle data ([Suykens2002]_ section 5, Fig. 7-8).

The paper shows fits to all rows, at gamma = 2 and sigma = 6.6, beside an SVM with sigma = 11, epsilon = 0 and C
infinite (:math:`10^4` here). It says that weights improve the LS-SVM in parts of the range, and that the SVM suffers
more at the boundary; it prints no numbers.

Rule: rows are left out in ten folds. "Improves" holds where the error over all rows is smaller on at least three
quarters of the seeds, each of which cuts the folds anew (the paper does not delimit the parts it means); "suffers at
the boundary" where the error of the SVM over the first tenth and the last tenth of the time axis is larger than that of
the LS-SVM on at least three quarters.
"""

from typing import Any

import numpy as np
from sklearn.svm import SVR

from problems.displays.canvas import axes_for
from problems.estimators.ls_svm import LSSVMRegressor
from problems.estimators.robust import RobustLSSVMRegressor
from problems.reproductions.drawing import draw_spread, legend_above
from problems.reproductions.measured import Measured, Printed, Round
from problems.reproductions.study import Study, held
from problems.reproductions.tuning import folds
from problems.reproductions.verdict import Claim, better
from substrate.conventions import sigma_to
from substrate.datasets import motorcycle
from substrate.kernels import RBF

__all__ = ["MOTORCYCLE"]

_MODELS = ("LS-SVM", "weighted LS-SVM", "SVM")
_EDGE = ", boundary"


def _one(seed: int, quick: bool) -> Round:
    X, y = motorcycle()
    outputs = {name: np.zeros(y.size) for name in _MODELS}
    for train, test in folds(seed).split(X):
        models = (
            held(LSSVMRegressor(RBF(6.6), 2.0).fit(X[train], y[train])),
            held(RobustLSSVMRegressor(RBF(6.6), 2.0).fit(X[train], y[train])),
            SVR(C=1e4, epsilon=0.0, gamma=sigma_to("scikit-learn SVM", 11.0)).fit(X[train], y[train]),
        )
        for name, model in zip(_MODELS, models, strict=True):
            outputs[name][test] = model.predict(X[test])
    time, width = X[:, 0], np.ptp(X[:, 0])
    edge = (time < time.min() + 0.1 * width) | (time > time.max() - 0.1 * width)
    squares = {name: (y - f) ** 2 for name, f in outputs.items()}
    whole = {name: float(square.mean()) for name, square in squares.items()}
    return Round(whole | {name + _EDGE: float(square[edge].mean()) for name, square in squares.items()})


def _judge(measured: Measured) -> tuple[Claim, ...]:
    plain, weighted, peer = _MODELS
    return (
        better(measured, weighted, plain, "weights improve the LS-SVM (as a whole; the paper: in parts)"),
        better(measured, plain + _EDGE, peer + _EDGE, "the SVM suffers more at the boundary"),
    )


def _draw(measured: Measured) -> Any:
    figure, axes = axes_for(None, 1, 2, (9.6, 2.8))
    label = "mean squared error, left out (g²)"
    draw_spread(axes[0], measured, _MODELS, {}, f"{label}, all rows")
    draw_spread(axes[1], measured, [name + _EDGE for name in _MODELS], {}, f"{label}, boundary", ("", "", ""))
    legend_above(figure, axes[0])
    return figure


MOTORCYCLE = Study(
    "suykens2002-motorcycle",
    "Suykens2002",
    "weighted LS-SVM and SVM on the motorcycle data (Fig. 7-8)",
    "gamma = 2 and sigma = 6.6, and for the SVM sigma = 11 and epsilon = 0, as printed; C is 10000 for infinity.",
    {_MODELS[1]: Printed("better in parts of the range")},
    20,
    2,
    _one,
    _judge,
    _draw,
)
