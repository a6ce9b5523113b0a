r"""When does the fusion of training and validation by least squares over-fit?
==========================================================================

With as many validation points as training points least squares fits both, noise included. A penalty helps; so does
leaving validation out of the fit. Compare the distances from the truth of 25 and of 100 validation points, of the
penalised machine, and of the LS-SVM.

The fused machine minimises the errors of both sets. Its regularization constants :math:`c = e - \alpha` are free, and
so drop out of the problem ([Pelckmans2005]_ eq. (21) for :math:`\xi = 0`, and eq. (23), whose :math:`\xi` is twice this
one, for the penalised machine):

.. math::

    \min_{\alpha, b} \; \tfrac12 \|y - K \alpha - b 1\|_2^2 + \tfrac12 \|y^v - K^v \alpha - b 1\|_2^2
    + \xi \|\alpha\|_1 \quad \text{s.t.} \quad 1^T \alpha = 0, \qquad \xi = 0 \text{ or } 0.1
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor, fused_least_squares, penalized_fusion
from substrate.datasets import sinc
from substrate.errors import OverfittingWarning
from substrate.kernels import RBF

kernel = RBF(sigma=1.0)
X, y = sinc(n_samples=100, random_state=0)
X_val, y_val = sinc(n_samples=100, random_state=1)
grid = np.linspace(-5.0, 5.0, 500)[:, None]
truth, K = np.sinc(grid[:, 0]), kernel(X)


def distance(values: np.ndarray) -> float:
    """Return the root mean square distance from the noise-free function."""
    return float(np.sqrt(np.mean((values - truth) ** 2)))


for n in (25, 100):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverfittingWarning)  # which the example shows
        solved = fused_least_squares.closed_form(K, y, kernel(X_val[:n], X), y_val[:n])
    fused = kernel(grid, X) @ solved["support_values"] + solved["bias"]
    print(f"fused with {n:3d} validation points: off by {distance(fused):.3f} from the truth")

solved = penalized_fusion.closed_form(K, y, kernel(X_val[:25], X), y_val[:25], xi=0.1)
penalized = kernel(grid, X) @ solved["support_values"] + solved["bias"]
print(f"penalized, 25 validation points:  off by {distance(penalized):.3f}")

tikhonov = LSSVMRegressor(kernel=kernel, gamma=10.0).fit(X, y)
print(f"LS-SVM without validation:        off by {distance(tikhonov.predict(grid)):.3f}\n")

print(tikhonov.certificate_)

# %%
# The fused machine follows the noise of both sets; the LS-SVM does not.
_, ax = plt.subplots()
ax.plot(np.vstack([X, X_val]), np.hstack([y, y_val]), "o", color="0.8", markersize=3)
ax.plot(grid, fused, label="fused, 100 and 100 rows")
ax.plot(grid, tikhonov.predict(grid), label="LS-SVM, 100 rows")
ax.plot(grid, truth, ":", color="black", linewidth=1.5, label="truth")
ax.set(xlabel="x", ylabel="y", title="With as many validation as training rows")
ax.legend()
plt.show()
