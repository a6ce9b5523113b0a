r"""How sure is the mean, and how sure is a new target?
===================================================

A confidence band holds the function that the targets scatter about, at one place or everywhere at once; a prediction
interval holds a new target. The noise does not average out of a new target, so that the interval is wider than both
bands. As the truth is known here, the share of it that each of them holds can be counted.

The fit is linear in the targets, :math:`f(x) = l(x)^T y` and, at the rows, :math:`H y`. With its bias corrected, the
band is ([DeBrabanter2011]_; q is a quantile of Student's t or, everywhere at once, of the tube formula
[SunLoader1994]_)

.. math::

    f(x) + l(x)^T (y - H y) \pm q\, \hat s\, \|l_c(x)\|_2, \qquad l_c(x) = (2 I - H)^T l(x)
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor
from substrate.datasets import sinc
from substrate.kernels import RBF

X, y = sinc(100, noise=0.1, random_state=0)
model = LSSVMRegressor(kernel=RBF(sigma=1.2), gamma=10.0).fit(X, y)
points = np.linspace(-5.0, 5.0, 301)[:, None]
truth = np.sinc(points[:, 0])

bands = {
    "mean, at each place": model.confidence_band(points, 0.9),
    "mean, everywhere at once": model.confidence_band(points, 0.9, simultaneous=True),
    "a new target": model.predict_interval(points, 0.9),
}
for name, (low, high) in ((name, band.T) for name, band in bands.items()):
    inside = np.mean((low <= truth) & (truth <= high))
    print(f"{name:24s} mean width {np.mean(high - low):.3f}, holds {inside:.0%} of the true curve")

raw = model.confidence_band(points, 0.9, bias_corrected=False)
shift = np.abs(bands["mean, at each place"].mean(axis=1) - raw.mean(axis=1)).max()
print(f"\nthe bias that is corrected for is up to {shift:.3f}")
print(f"effective parameters {model.effective_parameters_:.1f}, noise {model.noise_variance_**0.5:.3f}\n")
print(model.certificate_)

# %%
# Three bands of 90 %: the one that holds everywhere at once holds the whole true curve.
styles = {"mean, at each place": "-", "mean, everywhere at once": "--", "a new target": ":"}
for name, band in bands.items():
    for end, label in zip(band.T, (name, None), strict=True):
        plt.plot(points, end, styles[name], color="C0", linewidth=1.4, label=label)
plt.plot(points, truth, color="black", linewidth=1.0, label="true function")
plt.plot(X, y, ".", color="0.6", markersize=4, label="rows")
plt.xlabel("x (no unit)")
plt.ylabel("y (no unit)")
plt.title("90 %: the mean is known better than a new target")
plt.legend(loc="upper left", fontsize="small")
plt.show()
