r"""What if some targets are wrong: which rows are they, and does the fit follow them?
==================================================================================

Algorithm 1 of Suykens and others (2002): fit, measure the errors by a robust scale, fit again with a small weight on
the rows of large error. Here twelve of 120 targets are wrong by three. Four rules for the weights are compared, and the
rows that get hardly any weight with the rows that are wrong.

The second fit is the weighted LS-SVM, and Hampel's weights, with the robust scale :math:`\hat s` of the errors of the
fit before, are ([Suykens2002]_ eq. (10) and (14))

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{i=1}^N v_i e_i^2
    \quad \text{s.t.} \quad y_i = w^T \varphi(x_i) + b + e_i

.. math::

    v_i = \begin{cases} 1 & |e_i / \hat s| \le c_1 \\
    (c_2 - |e_i / \hat s|) / (c_2 - c_1) & c_1 < |e_i / \hat s| < c_2 \\
    10^{-4} & \text{otherwise} \end{cases} \qquad c_1 = 2.5, \; c_2 = 3
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor, Robust
from substrate.datasets import sinc_outliers
from substrate.kernels import RBF

data = sinc_outliers(120, n_outliers=12, outlier_size=3.0, random_state=0)
X, y, wrong = data.data, data.target, data.outliers
points = np.linspace(-5.0, 5.0, 400)[:, None]
truth = np.sinc(points[:, 0])


def distance(model):
    """Return how far a model is from the function behind the data."""
    return np.sqrt(np.mean((model.predict(points) - truth) ** 2))


kernel, gamma = RBF(1.0), 10.0
print(f"least squares               distance from the truth {distance(LSSVMRegressor(kernel, gamma).fit(X, y)):.3f}")
for weighting in ("hampel", "huber", "logistic", "myriad"):
    for most in (1, 100):
        model = LSSVMRegressor(kernel, gamma, robust=Robust(weighting, max_reweightings=most)).fit(X, y)
        steps = len(model.history_) - 1
        print(f"{weighting:9s} {steps:3d} reweighting(s)  distance from the truth {distance(model):.3f}")

model = LSSVMRegressor(kernel, gamma, robust="hampel").fit(X, y)
suspects = np.flatnonzero(model.weights_ < 0.01)
print(f"\nsuspected rows: {suspects.tolist()}\nwrong rows:     {wrong.tolist()}")
left_out = model.leave_one_out()
print(f"median absolute error with each row left out, exactly and without refitting: {left_out.median_absolute:.3f}\n")
print(model.certificate_)

# %%
# The rows that the machine gives no weight are ringed.
_, ax = plt.subplots()
ax.plot(X, y, "o", color="0.7", markersize=4)
ax.plot(X[suspects], y[suspects], "o", color="black", fillstyle="none", markersize=10, label="suspected")
ax.plot(points, model.predict(points), label="robust weights")
ax.plot(points, LSSVMRegressor(kernel, gamma).fit(X, y).predict(points), label="least squares")
ax.plot(points, truth, ":", color="black", linewidth=1.5, label="truth")
n_found = np.isin(wrong, suspects).sum()
ax.set(xlabel="x", ylabel="y", ylim=(-4.0, 7.0), title=f"{n_found} of {wrong.size} wrong targets are found")
ax.legend(ncols=2)
plt.show()
