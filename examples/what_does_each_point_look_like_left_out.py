r"""What would the machine predict for each point without having seen it, and what does that cost?
==============================================================================================

The prediction for each row by the machine fitted without it, from one factorisation, compared with as many refits. Both
agree up to rounding, and the first takes a small part of the time. Where a reading stands alone, the machine without it
is elsewhere.

No second fit is needed, since the support value of a row says how much the machine changes without it
([Cawley2004]_ section 2.5):
with B the block of the inverse of the LS-SVM's system that maps y to :math:`\alpha`,

.. math::

    y_i - f^{(-i)}(x_i) = \frac{\alpha_i}{B_{ii}}, \qquad
    B = A^{-1} - \frac{A^{-1} 1 1^T A^{-1}}{1^T A^{-1} 1}, \qquad A = K + I/\gamma
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor
from substrate.datasets import motorcycle
from substrate.kernels import RBF

X, y = motorcycle()
model = LSSVMRegressor(kernel=RBF(sigma=10.0), gamma=20.0).fit(X, y)

start = time.process_time()
left_out = model.leave_one_out()  # alpha_i / B_ii: no refit, no second look at y
closed = time.process_time() - start

start = time.process_time()
rows = np.arange(y.size)
explicit = np.array([LSSVMRegressor(RBF(10.0), 20.0).fit(X[rows != i], y[rows != i]).predict(X[[i]])[0] for i in rows])
refits = time.process_time() - start

print(f"largest difference to {y.size} refits: {np.abs(left_out.predictions - explicit).max():.1e} g")
print(f"about {refits / max(closed, 1e-6):.0f} times as fast")
print(f"root mean square: {np.sqrt(left_out.mean_square):.2f} g left out, {np.std(y - model.predict(X)):.2f} g fitted")
print(f"mean absolute {left_out.mean_absolute:.2f} g, median absolute {left_out.median_absolute:.2f} g")
print(f"degrees of freedom {left_out.degrees_of_freedom:.1f} of {y.size}\n")
print(left_out.certificate)

# %%
# Diamonds are the predictions without the row; where a reading stands alone they leave the fit.
plt.plot(X[:, 0], y, "o", color="0.6", label="data")
plt.plot(X[:, 0], model.predict(X), "-", label="fit")
plt.plot(X[:, 0], left_out.predictions, "D", color="black", markerfacecolor="none", label="row left out")
plt.gca().set(xlabel="time (ms)", ylabel="acceleration (g)", title="Every reading, predicted without it; no refit")
plt.legend()
plt.show()
