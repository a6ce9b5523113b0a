r"""How do I choose the weight of a penalty with proof that no other weight validates better?
=========================================================================================

Structure is found by a penalty on the largest value that each component takes, and the weight of the penalty by
validation. ``fuse`` follows the machine over all values of the weight and bounds the error between the solved ones; a
grid proves nothing. A shape is one more constraint, and the proof covers it as well.

The weight is the unknown of the upper level, and the machine, :math:`f = \sum_l f^l + b` with one component per input,
is optimal for it ([Pelckmans2005]_ eq. (24) and (28)):

.. math::

    \min_{\rho \ge 0} \; \frac1n \sum_{j=1}^n \big(y^v_j - f_\rho(x^v_j)\big)^2, \qquad
    f_\rho \text{ minimises} \quad \tfrac12 \sum_{i=1}^N e_i^2 + \rho \sum_{l=1}^d t_l, \quad
    t_l = \max_i |f^l(x_i)|
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import Machine, Substrate, fuse
from substrate.datasets import additive_function
from substrate.kernels import RBF, Componentwise

X, y = additive_function(n_samples=50, n_features=4, random_state=0)
X_train, y_train, X_val, y_val = X[:25], y[:25], X[25:], y[25:]

s = Substrate(Componentwise(RBF(1.0)), X_train, y_train)
rho = cp.Parameter(nonneg=True, name="rho")
machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))

best = fuse(machine, over=rho, validation=(X_val, y_val), gap=1e-3)
print(f"rho = {best.rho:.6g}: validation error {best.validation_error:.6f}")
print(f"no rho from {best.proved_on['rho'][0]:g} to {best.proved_on['rho'][1]:g} is below {best.lower_bound:.6f}")
print(f"{len(best.path)} vertices; {best.stop}")


def error(value: float) -> float:
    """Return the validation error of the machine at one rho."""
    return float(np.mean((y_val - machine.solve(rho=value).predict(X_val)) ** 2))


grid = np.geomspace(1e-2, 1e2, 9)
errors = [error(value) for value in grid]
print(f"a grid of {len(grid)} ends at {min(errors):.6f}, rho = {grid[int(np.argmin(errors))]:.4g}, and proves nothing")

# A shape is one more constraint; the proof covers it like any other.
low, high = X_train.copy(), X_train.copy()
high[:, 0] += 0.1
monotone = Machine(
    s,
    minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation),
    subject_to=[s.f(low) <= s.f(high)],
)
monotone_fusion = fuse(monotone, over=rho, validation=(X_val, y_val))
print(f"not decreasing in input 1: {monotone_fusion.validation_error:.6f}, proved to {monotone_fusion.gap:.1e}\n")

print(best.certificate)

# %%
# The dashed line is proved for every weight; the points of a grid prove nothing between them.
_, ax = plt.subplots()
best.plot(ax)
ax.plot(grid, errors, "x", color="#b03060", markersize=8, label="grid")
ax.set_xlim(1e-3, 1e3)
ax.set_title(f"With fuse: no rho is better by more than {best.gap:.1%}")
ax.legend()
plt.show()
