r"""What if the noise has outliers: does another loss help, and how do I write it?
==============================================================================

The loss is one line: squares follow the outliers, Huber's loss and the absolute value (the pinball loss at one half) do
not, and two more pinball losses give an interval. Huber's machine is also an estimator, without a solver: it lists the
rows it does not follow.

The three machines differ in the loss L only, which for Huber's ([Huber1964]_) has :math:`\delta = 0.15` and
:math:`\gamma = 10`:

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \sum_{i=1}^N L(e_i) \quad \text{s.t.} \quad y_i = w^T \varphi(x_i) + b + e_i

.. math::

    L(e) = \tfrac{\gamma}{2} e^2, \qquad
    L(e) = \gamma \begin{cases} \tfrac12 e^2 & |e| \le \delta \\ \delta |e| - \tfrac12 \delta^2 & |e| > \delta
    \end{cases}, \qquad L(e) = |e|
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from problems import KernelRegressor
from substrate import Machine, Substrate
from substrate.datasets import sinc_outliers
from substrate.kernels import RBF
from substrate.losses import Huber

X, y = sinc_outliers(120, n_outliers=12, outlier_size=3.0, random_state=0)
points = np.linspace(-5.0, 5.0, 400)[:, None]
truth = np.sinc(points[:, 0])
inliers = np.abs(y - np.sinc(X[:, 0])) < 1.0

s = Substrate(RBF(1.0), X, y)


def pinball(level):
    """Return the loss whose minimiser is a quantile."""
    return cp.sum(cp.maximum(level * s.e, (level - 1.0) * s.e))


losses = {
    "least squares": 5.0 * cp.sum_squares(s.e),
    "Huber": 5.0 * cp.sum(cp.huber(s.e, 0.15)),
    "absolute value": 2.0 * pinball(0.5),
}
fits = {name: Machine(s, minimize=0.5 * s.squared_norm + loss).solve() for name, loss in losses.items()}
for name, result in fits.items():
    error = np.sqrt(np.mean((result.predict(points) - truth) ** 2))
    print(f"{name:14s} distance from the truth {error:.3f}, certified: {result.certificate.holds}")

low, high = (Machine(s, minimize=0.05 * s.squared_norm + pinball(level)).solve() for level in (0.1, 0.9))
inside = (low.f <= y) & (y <= high.f)
print(
    f"between the quantiles 0.1 and 0.9 lie {inside.mean():.0%} of the points, {inside[inliers].mean():.0%} without "
    "the outliers"
)

# cvxpy's huber is twice Huber's loss, so that its weight 5 is gamma = 10
huber = KernelRegressor(RBF(1.0), gamma=10.0, loss=Huber(0.15)).fit(X, y)
error = np.sqrt(np.mean((huber.predict(points) - truth) ** 2))
linear = np.abs(y - huber.predict(X)) > huber.loss_.delta
has_found_all = bool(linear[~inliers].all())
print(
    f"the estimator  distance from the truth {error:.3f}, all outliers among its {linear.sum()} linear rows: "
    f"{has_found_all}\n"
)
print(huber.certificate_)

# %%
# Least squares follows the outliers; the other two losses do not.
_, ax = plt.subplots()
ax.plot(X, y, "o", color="0.7", markersize=4)
for name in ("Huber", "least squares", "absolute value"):
    ax.plot(points, fits[name].predict(points), label=name)
ax.plot(points, truth, ":", color="black", linewidth=1.5, label="truth")
ax.set(xlabel="x", ylabel="y", ylim=(-4.0, 7.0), title="It helps: Huber's loss, one line of cvxpy")
ax.legend(ncols=2)
plt.show()
