r"""How do I choose two weights together with proof that no other pair validates better?
====================================================================================

Four inputs are known to matter, four are doubtful: each group has one weight. ``fuse`` covers all pairs by triangles,
bounds the error on each of them, and cuts where the bound is weakest. A grid of 25 pairs, for comparison, has no bound
between its points.

With :math:`\rho_1` the weight of the known inputs and :math:`\rho_2` the weight of the doubtful ones, both are unknowns
of the upper level; the machine, whose expansion has 24 vectors, is optimal for them:

.. math::

    \min_{\rho_1, \rho_2 \ge 0} \; \frac1n \sum_{j=1}^n \big(y^v_j - f_\rho(x^v_j)\big)^2, \qquad
    f_\rho \text{ minimises} \quad \tfrac12 \sum_{i=1}^N e_i^2 + \rho_1 \sum_{l=1}^4 t_l + \rho_2 \sum_{l=5}^8 t_l,
    \quad t_l = \max_i |f^l(x_i)|
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import Machine, Substrate, fuse
from substrate.datasets import additive_function
from substrate.kernels import RBF, Componentwise

X, y = additive_function(n_samples=80, n_features=8, random_state=0)
X_train, y_train, X_val, y_val = X[:40], y[:40], X[40:], y[40:]

s = Substrate(Componentwise(RBF(1.0)), X_train, y_train, basis=24)
trusted, questionable = cp.Parameter(nonneg=True, name="known"), cp.Parameter(nonneg=True, name="doubtful")
penalty = trusted * cp.sum(s.maximal_variation[:4]) + questionable * cp.sum(s.maximal_variation[4:])
machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + penalty)

best = fuse(machine, over=(trusted, questionable), validation=(X_val, y_val), gap=3e-2)
print(", ".join(f"{name} = {value:.4g}" for name, value in best.values.items()))
print(f"validation error {best.validation_error:.4f}; none is below {best.lower_bound:.4f}")
for name, (low, high) in best.proved_on.items():
    print(f"  proved for {name} from {low:g} {'on' if np.isinf(high) else f'to {high:.4g}'}")
print(f"{len(best.path)} solves, {len(best.path.simplices)} triangles; {best.path.stop}")
print("maximal variations", best.maximal_variation.round(2))


def error(**weights: float) -> float:
    """Return the validation error of the machine at a pair of weights."""
    return float(np.mean((y_val - machine.solve(**weights).predict(X_val)) ** 2))


# One weight for all inputs is the diagonal of the map; a grid has no bound between its points.
values = np.geomspace(0.1, 100.0, 5)
grid = {(a, b): error(known=a, doubtful=b) for a in values for b in values}
(a, b), least = min(grid.items(), key=lambda item: item[1])
shared = min(grid[value, value] for value in values)
print(f"a grid of {len(grid)} ends at {least:.4f} (known = {a:.3g}, doubtful = {b:.3g}), and proves nothing")
print(f"one weight for all inputs, on the same grid: {shared:.4f}\n")

print(best.certificate)

# %%
# The error over all pairs: each triangle has one bound, and is smaller where the error is near the least.
ax = best.plot()
ax.set_title(f"With fuse: no pair is better by more than {best.gap:.0%}")
plt.show()
