"""What are the levels of a hierarchical machine, and can all of them be chosen together with proof?
=================================================================================================

Three levels: the parameters of the machine, the weight of its maximal variations above them, and the kernel above both.
Each level is optimal for what the one above it decides, and the bound at the top covers all of them.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import Machine, Substrate, fuse_kernels
from substrate.datasets import additive_function
from substrate.kernels import RBF, Componentwise, Kernel, Linear

X, y = additive_function(n_samples=80, n_features=5, random_state=0)
X_train, y_train, X_val, y_val = X[:40], y[:40], X[40:], y[40:]


def machine(kernel: Kernel, X: np.ndarray, y: np.ndarray) -> Machine:
    """Return level 1, the substrate, with level 2, the weight rho of structure, as a parameter."""
    s = Substrate(Componentwise(kernel), X, y, cutoff=1e-3)
    rho = cp.Parameter(nonneg=True, name="rho")
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))


# Level 3 is the list: every kernel is fused over all rho by itself, and the least of their bounds is that of all.
kernels = {"linear": Linear(), "narrow": RBF(0.5), "wide": RBF(2.0)}
data = {"data": (X_train, y_train), "validation": (X_val, y_val)}
top = fuse_kernels(machine, kernels, over="rho", gap=1e-2, **data)
print(f"level 3, the kernel: {top.name}, {top.kernel!r}")
for name, fusion in top.fusions.items():
    print(
        f"  {name:7} rho = {fusion.rho:8.4g}  error {fusion.validation_error:.4f}, none below {fusion.lower_bound:.4f}"
    )
print(f"level 2, the weight: rho = {top.rho:.4g}; no rho of any kernel is below {top.lower_bound:.4f}")

# Level 1 is optimal at that rho and kernel: its conditions for optimality are what the levels above rest on.
again = machine(top.kernel, X_train, y_train).solve(rho=top.rho)
difference = float(np.abs(again.predict(X_val) - top.predict(X_val)).max())
print(f"level 1, the parameters: solved again, predictions differ by {difference:.1e}")
print("maximal variations", again.maximal_variation.round(2), "\n")
print(top.certificate)

# %%
# One curve for each kernel, over all rho; the dashed line is proved for all of them.
ax = top.plot()
ax.set_title(f"Three levels: {top.name} kernel, rho = {top.rho:.3g}, proved to {top.gap:.1%}")
plt.show()
