r"""Weighted LS-SVM on the Boston housing data ([Suykens2002]_ section 5, Fig. 9).

One random split into 406 and 100 rows; inputs normalised except the binary one, and the target too, as the size of the
printed errors shows; gamma and sigma by ten folds on the training rows.

Rule: "weights improve" holds where the test error is smaller on at least three quarters of the splits; each printed
error, where it lies between our quartiles widened by a tenth of it.
"""

from typing import Any

import numpy as np

from problems.displays.canvas import axes_for
from problems.estimators.robust import RobustLSSVMRegressor
from problems.reproductions.drawing import draw_spread, legend_above
from problems.reproductions.measured import Measured, Printed, Round
from problems.reproductions.study import Study, held
from problems.reproductions.tuning import folds, standardised, tuned_regressor
from problems.reproductions.verdict import Claim, better, level
from substrate.datasets import boston

__all__ = ["BOSTON"]

_PLAIN, _WEIGHTED = "LS-SVM", "weighted LS-SVM"
_PUBLISHED = {_PLAIN: Printed("0.1880", 0.1880), _WEIGHTED: Printed("0.1638", 0.1638)}
_ERRATUM = "[Suykens2002] section 5, Boston housing"
_BINARY = 3  # CHAS


def _one(seed: int, quick: bool) -> Round:
    X, y = boston()
    order = np.random.default_rng(seed).permutation(y.size)
    train, test = order[:150] if quick else order[:406], order[406:]
    binary = X[:, _BINARY].copy()
    X, X_test = standardised(X[train], X[test])
    X[:, _BINARY], X_test[:, _BINARY] = binary[train], binary[test]
    target, target_test = standardised(y[train, None], y[test, None])
    y, y_test = target[:, 0], target_test[:, 0]
    plain = tuned_regressor(X, y, (3.0, 4.5, 7.0), folds(seed, 5 if quick else 10))
    weighted = held(RobustLSSVMRegressor(plain.kernel_, plain.gamma_).fit(X, y))
    models = {_PLAIN: plain, _WEIGHTED: weighted}
    return Round({name: float(np.mean((y_test - model.predict(X_test)) ** 2)) for name, model in models.items()})


def _judge(measured: Measured) -> tuple[Claim, ...]:
    return (
        better(measured, _WEIGHTED, _PLAIN, "weights improve the LS-SVM", _ERRATUM),
        *(level(measured, name, printed, erratum=_ERRATUM) for name, printed in _PUBLISHED.items()),
    )


def _draw(measured: Measured) -> Any:
    figure, (axes,) = axes_for(None, size=(6.4, 2.4))
    draw_spread(axes, measured, (_PLAIN, _WEIGHTED), _PUBLISHED, "mean squared test error (standardised target)")
    legend_above(figure, axes)
    return figure


BOSTON = Study(
    "suykens2002-boston",
    "Suykens2002",
    "weighted LS-SVM on the Boston data (Fig. 9)",
    "gamma and sigma by ten folds on the training rows, with a lower bound.",
    _PUBLISHED,
    20,
    2,
    _one,
    _judge,
    _draw,
)
