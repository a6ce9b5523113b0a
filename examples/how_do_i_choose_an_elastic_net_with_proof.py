r"""How do I choose the weight of an elastic net, or of any convex problem, with proof?
===================================================================================

``fuse`` takes a plain cvxpy problem with a parameter and an expression for the validation error. It needs no kernel: it
solves the problem, and the problem with the validation error added. Twelve coefficients are estimated from 40 rows,
three of which are not zero in truth; the number of solves that the proof takes is printed with the bound.

With further rows V and their targets u for validation, the weight :math:`\lambda` is chosen at the upper level:

.. math::

    \min_{\lambda} \; \tfrac{1}{40} \|V w + b 1 - u\|_2^2, \qquad
    (w, b) \text{ minimises} \quad \tfrac12 \|X w + b 1 - y\|_2^2
    + \lambda \big( 0.9\, \|w\|_1 + 0.05\, \|w\|_2^2 \big)
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import fuse

rng = np.random.default_rng(0)
X, V = rng.normal(size=(40, 12)), rng.normal(size=(40, 12))
slopes = np.concatenate([[2.0, -1.5, 1.0], np.zeros(9)])
y, u = (rows @ slopes + 1.5 * rng.normal(size=40) for rows in (X, V))

w, b = cp.Variable(12), cp.Variable()
weight = cp.Parameter(nonneg=True, name="weight")
penalty = 0.9 * cp.norm1(w) + 0.05 * cp.sum_squares(w)
problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(X @ w + b - y) + weight * penalty))
validation = cp.sum_squares(V @ w + b - u) / 40

best = fuse(problem, weight, box={weight: (1e-2, 1e3)}, validation=validation, gap=0.005)
print(f"weight = {best.values['weight']:.4g}: validation error {best.validation_error:.4f}")
print(f"no weight from 0.01 to 1000 is below {best.lower_bound:.4f}; {best.solves} solves")
print(f"{np.sum(np.abs(w.value) > 1e-6)} of 12 coefficients are not zero\n")
print(best.certificate)

# %%
# The problem was solved at the points; the dashed line is proved for every weight between them.
_, ax = plt.subplots()
ax.plot(best.path.values, best.path.validation_errors, "k.-", linewidth=1.0, label="solved")
ax.plot(best.values["weight"], best.validation_error, "o", color="#b03060", markersize=8, label="chosen")
ax.axhline(best.lower_bound, color="0.5", linestyle="--", label="lower bound, 0.01 to 1000")
ax.set(xscale="log", xlabel="weight", ylabel="validation error (mean square)")
ax.set_title(f"No weight is better by more than {best.gap:.1%}")
ax.legend()
plt.show()
