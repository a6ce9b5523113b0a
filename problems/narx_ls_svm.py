r"""Nonlinear autoregression with exogenous inputs by least-squares support vector regression.

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_t v_t e_t^2 \quad \text{s.t.} \quad
    y_t = w^T \varphi(y_{t-1}, \dots, y_{t-p}, u_{t-d_1}, \dots, u_{t-d_q}) + b + e_t, \quad t = m + 1, \dots, T

Symbols: y output of a system and u its inputs at the times 1 to T; p lags of the output, d delays of the inputs, m the
largest of them; K kernel matrix of the windows (:func:`substrate.windows.windowize`); all others are as in
:mod:`problems.ls_svm_regression`.

The support values are :math:`\alpha_t = \gamma v_t e_t`. The predictor is one step ahead,
:math:`\hat y_t = \sum_s \alpha_s k(x_s, x_t) + b` with :math:`x_t` the window of time t; a free run puts
predictions into the windows.

Closed form: as in :mod:`problems.ls_svm_regression`, on the windows; [Suykens2002b]_.
"""

from dataclasses import replace
from typing import Any

from problems import ls_svm_regression
from problems.demonstration import Case, Demonstration
from substrate.arrays import Array
from substrate.declare.declared import Declared
from substrate.kernels import RBF
from substrate.windows import windowize

__all__ = ["DEMONSTRATION", "closed_form", "declare"]


def _build(kernel: Any, X: Array, y: Array) -> dict[str, Any]:
    """Return the kernel matrix of the windows of the series y: two lags of the output, one delay of X."""
    windows = windowize(y[:70], X[:70], lags=2, inputs=1)
    return {"K": kernel(windows.X), "y": windows.y}


DEMONSTRATION = Demonstration(
    equations="Suykens2002b",
    cases=(
        Case(
            label="one step ahead",
            choice={},
            dataset="sunspots",
            kernel=RBF(sigma=60.0),
            parameters={"gamma": 10.0},
            build=_build,
        ),
    ),
)


def declare(K: Any, y: Any, gamma: float, weights: Any = None) -> Declared:
    """Declare the problem on the kernel matrix of windows and their targets, one step ahead."""
    return replace(ls_svm_regression.declare(K, y, gamma, weights), title="NARX by LS-SVM")


def closed_form(K: Any, y: Any, gamma: float, weights: Any = None) -> dict[str, Array]:
    """Return the same quantities by linear algebra: support values, bias and errors."""
    return ls_svm_regression.closed_form(K, y, gamma, weights)
