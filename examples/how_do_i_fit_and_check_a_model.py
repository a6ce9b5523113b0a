r"""How do I fit a model, predict with it, and know that the fit is right?
======================================================================

Five lines give a model and a certificate. The model is a least-squares support vector machine on the motorcycle data,
with kernel and gamma given. The certificate bounds the distance of the fitted values from the exact optimum, and lists
the conditions that they meet, each with its residual, scale and tolerance.

The problem that is solved is [Suykens2002]_ eq. (1), with :math:`\gamma = 2` and the kernel
:math:`k(x, z) = \exp(-\|x - z\|^2 / 6.6^2)`:

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{i=1}^N e_i^2
    \quad \text{s.t.} \quad y_i = w^T \varphi(x_i) + b + e_i, \quad i = 1, \dots, N
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor
from substrate.datasets import motorcycle
from substrate.kernels import RBF

X, y = motorcycle()
model = LSSVMRegressor(kernel=RBF(sigma=6.6), gamma=2.0).fit(X, y)

for time, acceleration in zip([10.0, 20.0, 30.0], model.predict(np.array([[10.0], [20.0], [30.0]])), strict=True):
    print(f"{time:4.0f} ms after impact: head acceleration {acceleration:7.1f} g")

print(f"\nthe largest of {model.support_values_.size} support values: {np.abs(model.support_values_).max():.1f}\n")
print(model.certificate_)

# %%
# The data and the fit; the certificate above states how far it can be from the exact optimum.
grid = np.linspace(0.0, 60.0, 300)[:, None]
_, ax = plt.subplots()
ax.plot(X[:, 0], y, "o", color="0.7", markersize=4, label="measured")
ax.plot(grid[:, 0], model.predict(grid), label="LS-SVM")
ax.set(xlabel="time after impact (ms)", ylabel="head acceleration (g)")
ax.set_title(f"Within {model.certificate_.accuracy:.0e} g of the exact optimum")
ax.legend()
plt.show()
