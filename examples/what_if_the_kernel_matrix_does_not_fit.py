r"""What if the kernel matrix does not fit into memory?
===================================================

The closed form reports the memory it needs before it allocates any; conjugate gradients never store the matrix. They
multiply by blocks of it, and stop where the accuracy that was asked for is proved.

The system of the LS-SVM is indefinite, but on the subspace of support values with the sum zero the bias drops out and
what remains is positive definite. What is left over in the equations bounds the distance of the fitted values from the
exact optimum :math:`f^\star`:

.. math::

    (K + I/\gamma)\, \alpha + b 1 = y, \quad 1^T \alpha = 0, \qquad
    \|f - f^\star\|_2 \le \|y - (K + I/\gamma)\, \alpha - b 1\|_2
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor
from substrate.arrays import memory_limit
from substrate.datasets import sinc
from substrate.errors import DataError
from substrate.kernels import RBF

X, y = sinc(n_samples=3000, noise=0.1, random_state=0)

# Pretend that 20 MB are left: the closed form needs 72 MB and raises before it allocates anything
with memory_limit(20e6):
    try:
        LSSVMRegressor(kernel=RBF(sigma=1.0), gamma=10.0).fit(X, y)
    except DataError as error:
        print("refused:", error, "\n")
    model = LSSVMRegressor(kernel=RBF(sigma=1.0), gamma=10.0, solver="cg").fit(X, y)

grid = np.linspace(-5.0, 5.0, 201)[:, None]
truth = np.sinc(grid[:, 0])
print(f"largest error against the noise-free function: {np.abs(model.predict(grid) - truth).max():.3f}")
print(f"iterations: {model.n_iter_}\n")
print(model.certificate_)

# %%
# The fit by conjugate gradients, which only multiply by blocks of the matrix.
_, ax = plt.subplots()
ax.plot(X, y, ".", color="0.8", markersize=2, label="3000 rows")
ax.plot(grid, model.predict(grid), label="conjugate gradients")
ax.plot(grid, truth, ":", color="black", linewidth=1.5, label="truth")
ax.set(xlabel="x", ylabel="y", title='solver="cg": 20 MB where the matrix takes 72')
ax.legend()
plt.show()
