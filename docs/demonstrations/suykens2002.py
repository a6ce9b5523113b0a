r"""Errata of [Suykens2002]: weights that vanish, whose median, which errors, how many rows leave, and which.

Figures that do not reproduce, with the command that shows it:

:benchmark [Suykens2002]_ section 5, sinc data: about 20 support vectors suffice; 100 rows of 300 do on every set, 50 on
    14 of 20 sets and 20 on 2 of 20: `python examples/reproductions/run.py suykens2002-pruning`
:benchmark [Suykens2002]_ section 5, Boston housing: 0.1880 without and 0.1638 with weights; weights helped on 7 of 20
    random splits: `python examples/reproductions/run.py suykens2002-boston`
"""

import numpy as np

from demonstrations.shown import Shown
from problems import PrunedLSSVMRegressor, weighted_ls_svm
from substrate.datasets import sinc_outliers
from substrate.kernels import RBF
from substrate.robust_weights import LEAST_WEIGHT, robust_scale, robust_weights

__all__ = [
    "errors_of_a_weighted_fit",
    "five_per_cent_of_few",
    "ramp_to_zero",
    "scale_of_the_inputs",
    "which_rows_leave_first",
]


def ramp_to_zero() -> Shown:
    r"""The ramp ends below the constant that follows it.

    :equation [Suykens2002]_ (13)-(14): $v_k = (c_2 - \lvert e_k/\hat s\rvert)/(c_2 - c_1)$ up to $\lvert e_k/\hat
        s\rvert = c_2$
    :holds: $v_k = 0$ there and below $10^{-4}$ just before, so that $1/(\gamma v_k)$ in (13) is infinite; every weight
        is kept at or above $10^{-4}$
    """
    r, c_1, c_2 = np.linspace(2.9, 3.1, 2001), 2.5, 3.0
    printed = np.where(r <= c_2, (c_2 - r) / (c_2 - c_1), LEAST_WEIGHT)
    with np.errstate(divide="ignore"):
        largest = [float((1.0 / v).max()) for v in (printed, robust_weights(r, 1.0))]
    return Shown("largest 1/v, which the third branch bounds by ten thousand", *largest, 1.0 / LEAST_WEIGHT)


def scale_of_the_inputs() -> Shown:
    r"""A scale of the errors does not depend on the inputs.

    :equation [Suykens2002]_ (15): $\hat s = 1.483\,\mathrm{MAD}(x_i)$ in the line after it
    :holds: $1.483\,\mathrm{MAD}(e_k)$
    """
    rng = np.random.default_rng(0)
    x, e = rng.uniform(-10.0, 10.0, 4000), 0.2 * rng.normal(size=4000)
    printed, holds = (abs(robust_scale(values, "mad") / 0.2 - 1.0) for values in (x, e))
    return Shown("distance from the deviation of the errors, relative", printed, holds, 0.05)


def errors_of_a_weighted_fit() -> Shown:
    r"""After a weighted fit an error is not its support value over gamma.

    :place [Suykens2002]_ Algorithm 1, repeated: $e_k = \alpha_k/\gamma$
    :holds: $e_k = \alpha_k/(\gamma v_k)$ once there are weights
    """
    X, y = sinc_outliers(60, n_outliers=4, random_state=0)
    K, gamma = RBF(1.0)(X), 10.0
    v, solved = weighted_ls_svm.algorithm_1_weights(K, y, gamma), weighted_ls_svm.closed_form(K, y, gamma)
    errors = y - K @ solved["support_values"] - solved["bias"]
    printed, holds = (
        float(np.linalg.norm(errors - solved["support_values"] / (gamma * w)) / np.linalg.norm(errors))
        for w in (1.0, v)
    )
    return Shown("distance from y - f, relative", printed, holds)


def five_per_cent_of_few() -> Shown:
    r"""Five per cent of few rows is less than one row.

    :place [Suykens2002]_ Algorithm 2, step 4: 5 % of the N points leave
    :holds: nothing leaves below N = 20, and the algorithm does not progress; at least one row must leave
    """
    X, y = sinc_outliers(19, n_outliers=0, random_state=0)
    path = PrunedLSSVMRegressor(RBF(1.0), 10.0, n_support=2).fit(X, y).pruning_path_
    sizes = [step.size for step in path]
    stalled = [sum(int(0.05 * n) == 0 for n in sizes), sum(a == b for a, b in zip(sizes[1:], sizes, strict=False))]
    return Shown("steps, of all from 19 rows to 2, at which nothing leaves", *(float(count) for count in stalled), 0.0)


def which_rows_leave_first() -> Shown:
    r"""With weights a small support value means an outlier, without weights a row that is fitted well.

    :place [Suykens2002]_ Algorithm 2: small support values belong to the least meaningful points, with weights as
        without
    :holds: true without weights, where outliers stay longest; with weights an outlier has the smallest support value of
        all and leaves first, as it should
    """
    sample = sinc_outliers(random_state=0)
    first = []
    for robust in ("hampel", None):
        model = PrunedLSSVMRegressor(RBF(1.0), 10.0, robust=robust, n_support=20)
        path = model.fit(sample.data, sample.target).pruning_path_
        first.append(float(np.mean(~np.isin(sample.outliers, path[1].rows))))
    return Shown("share of the outliers among the first rows to leave, with weights and without", *first, 0.0)
