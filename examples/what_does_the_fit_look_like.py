r"""What does an LS-SVM fit look like?
==================================

This draws the picture of the README: the motorcycle data with its fit, and the residuals of the certificate. Each bar
is a check of the certificate, and its length says how far the residual is below what is tolerated.

The conditions of optimality are [Suykens2002]_ eq. (4), here with :math:`\gamma = 20`. Without w they are

.. math::

    \sum_{j=1}^N \alpha_j k(x_i, x_j) + b + e_i = y_i, \qquad \alpha_i = \gamma e_i, \quad i = 1, \dots, N, \qquad
    \sum_{i=1}^N \alpha_i = 0
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor
from substrate.datasets import motorcycle
from substrate.kernels import RBF

X, y = motorcycle()
model = LSSVMRegressor(kernel=RBF(sigma=10.0), gamma=20.0).fit(X, y)
grid = np.linspace(X.min(), X.max(), 400)[:, None]
print(model.certificate_)

# %%
# A smooth curve through the readings; every condition of optimality holds far within its tolerance.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), width_ratios=(3, 2), layout="constrained")
left.plot(X[:, 0], y, "o", color="0.6", markersize=4, label="measured")
left.plot(grid[:, 0], model.predict(grid), color="#b03060", linewidth=2, label="LS-SVM")
left.set(xlabel="time after impact (ms)", ylabel="head acceleration (g)", title="Motorcycle data and fit")
left.legend(frameon=False)

rows = [row for row in model.certificate_.rows if row.relative > 0.0]
margin = [np.log10(row.relative / row.tolerance) for row in rows]
right.barh([row.name for row in rows][::-1], margin[::-1], color="#b03060", height=0.55)
right.axvline(0.0, color="black", linewidth=1)
right.set(xlabel="log10 (residual / tolerance)", title="Its certificate: left of 0 passes", xlim=(min(margin) - 1, 1))
if len(sys.argv) == 2:  # the name of a file to save it to
    figure.savefig(sys.argv[1], dpi=130)
plt.show()
