r"""How sure is a prediction, and what is that guaranteed to mean?
==============================================================

A prediction without an interval says little. The intervals here come from the errors of rows left out, without a refit;
from folds that repeat a search; or from rows kept for calibration. Compare the share of new rows inside and the widths,
and read what each method guarantees and what it rests on.

All machines without one row, :math:`f^{(-i)}`, have a closed form, with C the inverse of the matrix of the LS-SVM's
system, c the product of C and :math:`(1, k(x_1, x), \dots, k(x_N, x))`, and :math:`r_i` the left-out error of row i:

.. math::

    r_i = \frac{\alpha_i}{C_{ii}}, \qquad f^{(-i)}(x) = f(x) - c_i r_i

With :math:`k = \lceil 0.9 (N + 1) \rceil` and :math:`a_{(k)}` the k-th smallest of N numbers, the jackknife+ interval
at x is ([Barber2021]_)

.. math::

    \Big[ \big( f^{(-i)}(x) - |r_i| \big)_{(N + 1 - k)}, \; \big( f^{(-i)}(x) + |r_i| \big)_{(k)} \Big]
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor, LSSVMRegressorCV
from problems.displays import IntervalDisplay
from substrate.datasets import motorcycle
from substrate.kernels import RBF

X, y = motorcycle()
order = np.random.default_rng(0).permutation(y.size)
train, test = order[:100], order[100:]
model = LSSVMRegressor(kernel=RBF(sigma=6.6), gamma=2.0).fit(X[train], y[train])  # both fixed in advance

for method in ("conformal", "jackknife+", "nested", "adaptive"):
    low, high = model.predict_interval(X[test], coverage=0.9, method=method).T
    inside = np.mean((low <= y[test]) & (y[test] <= high))
    print(f"{method}: {inside:.0%} of {test.size} new rows inside, mean width {np.mean(high - low):.0f} g")
print(f"the full conformal set {model.interval_guarantee(0.9, 'conformal')}")
mean, deviation = model.predict([[20.0]], return_std=True)
print(f"Gaussian: {mean[0]:.0f} g, give or take {deviation[0]:.0f} g")

# gamma chosen on the same rows: the default repeats the choice without each of ten folds
chosen = LSSVMRegressorCV(kernel=RBF(sigma=6.6), cv="evidence").fit(X[train], y[train])
low, high = chosen.predict_interval(X[test], coverage=0.9).T
print(f"\nchosen by the evidence, gamma {chosen.gamma_:.2g}: mean width {np.mean(high - low):.0f} g")
print(f"leaving rows out is {chosen.interval_guarantee(0.9, 'conformal')}")
print(f"the default {chosen.interval_guarantee(0.9)}")

# machines without exact leave-one-out: some rows are kept for calibration
robust = LSSVMRegressor(kernel=RBF(sigma=6.6), gamma=2.0, robust="hampel").fit(X[train[:60]], y[train[:60]])
low, high = robust.calibrate(X[train[60:]], y[train[60:]]).predict_interval(X[test], coverage=0.9).T
print(f"\nrobust, calibrated on 40 rows: mean width {np.mean(high - low):.0f} g")
print(f"it {robust.interval_guarantee(0.9)}\n")
print(model.certificate_)

# %%
# The intervals at new rows; the title states what is guaranteed.
display = IntervalDisplay.from_estimator(model, X[test], y[test], names=["time (ms)"], target="acceleration (g)")
display.ax_.set_title(f"90 % intervals: {display.covered:.0%} of {test.size} new rows inside")
plt.show()
