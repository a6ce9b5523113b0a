r"""Which known machines are a few lines: support vector machines, bounds, known values, two kernels?
=================================================================================================

Support vector machines for regression and classification, an output within bounds, values that are known exactly, two
kernels with a penalty each: each is one objective on a substrate, and agrees with scikit-learn's machine where there is
one. The differences that are printed are of the size of the solvers' accuracy.

The two support vector machines differ from an LS-SVM in their loss only. For regression and, with labels :math:`\pm 1`,
for classification they are

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + 5 \sum_{i=1}^N \max\big(|e_i| - 0.1, \, 0\big)
    \quad \text{s.t.} \quad y_i = w^T \varphi(x_i) + b + e_i

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + 2 \sum_{i=1}^N \max(e_i, 0)
    \quad \text{s.t.} \quad y_i \big( w^T \varphi(x_i) + b \big) = 1 - e_i
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC, SVR

from problems import LSSVMRegressor
from substrate import Machine, Substrate
from substrate.datasets import motorcycle, ripley
from substrate.kernels import RBF

X, y = motorcycle()
X, y = X[::2] / 10.0, y[::2] / 50.0
grid = np.linspace(X.min(), X.max(), 200)[:, None]
s = Substrate(RBF(1.0), X, y)

# epsilon-insensitive regression: scikit-learn's SVR
tube = Machine(s, minimize=0.5 * s.squared_norm + 5.0 * cp.sum(cp.pos(cp.abs(s.e) - 0.1))).solve()
peer = SVR(gamma=1.0, C=5.0, epsilon=0.1, tol=1e-8).fit(X, y)
print(f"SVR:          differs from scikit-learn's by {np.abs(tube.predict(grid) - peer.predict(grid)).max():.1e}")

# the hinge: scikit-learn's SVC
X2, labels = ripley()
s2 = Substrate(RBF(0.5), X2[::3], np.where(labels[::3] == 1, 1.0, -1.0), task="classification")
hinge = Machine(s2, minimize=0.5 * s2.squared_norm + 2.0 * cp.sum(cp.pos(s2.e))).solve()
svc = SVC(gamma=4.0, C=2.0, tol=1e-8).fit(X2[::3], labels[::3])
print(f"SVC:          differs from scikit-learn's by {np.abs(hinge.predict(X2) - svc.decision_function(X2)).max():.1e}")

# an output that stays between two numbers on the whole grid
fit = 0.5 * s.squared_norm + 10.0 * cp.sum_squares(s.e)
bounded = Machine(s, minimize=fit, subject_to=[s.f(grid) <= 0.5, s.f(grid) >= -2.0]).solve()
values = bounded.predict(grid)
print(f"bounded:      between {values.min():.3f} and {values.max():.3f}")

# at rest before the impact and at the end: values known exactly
ends = np.array([[0.0], [6.0]])
pinned = Machine(s, minimize=fit, subject_to=[s.f(ends) == 0.0]).solve()
print(f"known values: f is {np.abs(pinned.predict(ends)).max():.1e} from zero there")

# two kernels with a penalty each: one expansion each, one bias
wide, narrow = Substrate(RBF(3.0), X, y), Substrate(RBF(0.5), X, y, bias=False)
errors = y - wide.f() - narrow.f()
penalty = 0.5 * (0.1 * wide.squared_norm + 1.0 * narrow.squared_norm)
two_scales = Machine(wide, narrow, minimize=penalty + 10.0 * cp.sum_squares(errors), predict=wide + narrow).solve()
closed = LSSVMRegressor(kernel=(1.0 / 0.1) * RBF(3.0) + RBF(0.5), gamma=20.0).fit(X, y)
difference = np.abs(two_scales.predict(grid) - closed.predict(grid)).max()
print(f"two kernels:  differ from the LS-SVM on K1/lambda1 + K2/lambda2 by {difference:.1e}\n")

print(two_scales.certificate)

# %%
# Three of them on the same data.
_, ax = plt.subplots()
ax.plot(10.0 * X, 50.0 * y, "o", color="0.7", markersize=4)
for name, machine in {"SVR": tube, "at most 25 g": bounded, "zero at both ends": pinned}.items():
    ax.plot(10.0 * grid, 50.0 * machine.predict(grid), label=name)
ax.set(
    xlabel="time after impact (ms)", ylabel="head acceleration (g)", title="SVR, bounds, known values: in a few lines"
)
ax.legend()
plt.show()
