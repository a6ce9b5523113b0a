r"""How do I choose C of a support vector machine with proof, and the width of its kernel?
======================================================================================

A support vector regression has a weight C of its errors, and its kernel a width; both are usually read off a grid.
``fuse`` bounds the validation error for every C in a range, between the values that were solved too. For a list of
kernels the smallest of their bounds holds.

For each of the three widths the machine is

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + C \sum_{i=1}^N \max\big(|e_i| - 0.1, \, 0\big)
    \quad \text{s.t.} \quad y_i = w^T \varphi(x_i) + b + e_i, \quad i = 1, \dots, N

and C, from 0.01 to 100, the one with the smallest mean square of the validation errors.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import Machine, Substrate, fuse
from substrate.kernels import RBF

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 6.0, size=(60, 1))
y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=60)


def svr(kernel, X, y):
    """Declare a support vector regression with a tube of width 0.1."""
    s, C = Substrate(kernel, X, y), cp.Parameter(nonneg=True, name="C")
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(cp.abs(s.e) - 0.1)))


options = {"validation": (X[30:], y[30:]), "gap": 0.02, "box": {"C": (0.01, 100.0)}}
kernels = [RBF(0.3), RBF(1.0), RBF(3.0)]
fusions = [fuse(svr(kernel, X[:30], y[:30]), over="C", **options) for kernel in kernels]
best, kernel = min(zip(fusions, kernels, strict=True), key=lambda pair: pair[0].validation_error)
lower_bound = min(fusion.lower_bound for fusion in fusions)
print(f"{kernel!r}, C = {best.C:.4g}: validation error {best.validation_error:.5f}")
print(f"no C from 0.01 to 100 of the three kernels is below {lower_bound:.5f}\n")

print(best.certificate)

# %%
# The dashed line is proved for all values of C of this kernel; kernels between the three are not covered.
_, ax = plt.subplots()
best.plot(ax)
ax.set_title(f"No C of this kernel is better by more than {best.gap:.1%}")
plt.show()
