r"""What are the levels of a hierarchical machine, and can all of them be chosen together with proof?
=================================================================================================

Three levels: the parameters of the machine, the weight of its maximal variations above them, and the kernel above both.
Each level is optimal for what the one above it decides, and the bound at the top covers all of them.

From the top to the bottom, with :math:`f = \sum_l f^l + b` a sum of one component per input,

.. math::

    \min_{k \in \{\text{linear, narrow, wide}\}} \; \min_{\rho \ge 0} \;
    \frac1n \sum_{j=1}^n \big(y^v_j - f_{k, \rho}(x^v_j)\big)^2, \qquad
    f_{k, \rho} \text{ minimises} \quad \tfrac12 \sum_{i=1}^N e_i^2 + \rho \sum_{l=1}^5 \max_i |f^l(x_i)|
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import Machine, Substrate, fuse
from substrate.datasets import additive_function
from substrate.kernels import RBF, Componentwise, Kernel, Linear

X, y = additive_function(n_samples=80, n_features=5, random_state=0)
X_train, y_train, X_val, y_val = X[:40], y[:40], X[40:], y[40:]


def machine(kernel: Kernel, X: np.ndarray, y: np.ndarray) -> Machine:
    """Return level 1, the substrate, with level 2, the weight rho of structure, as a parameter."""
    s = Substrate(Componentwise(kernel), X, y)
    rho = cp.Parameter(nonneg=True, name="rho")
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))


# Level 3 is the list: every kernel is fused over rho by itself, and the least of their bounds holds for all.
kernels = {"linear": Linear(), "narrow": RBF(0.5), "wide": RBF(2.0)}
fusions = {
    name: fuse(machine(kernel, X_train, y_train), over="rho", validation=(X_val, y_val), gap=1e-2)
    for name, kernel in kernels.items()
}
name = min(fusions, key=lambda name: fusions[name].validation_error)
top, lower_bound = fusions[name], min(fusion.lower_bound for fusion in fusions.values())
print(f"level 3, the kernel: {name}, {kernels[name]!r}")
for kernel_name, fusion in fusions.items():
    print(
        f"  {kernel_name:7} rho = {fusion.rho:8.4g}  error {fusion.validation_error:.4f}, "
        f"none below {fusion.lower_bound:.4f} up to rho = {fusion.proved_on['rho'][1]:.4g}"
    )
print(f"level 2, the weight: rho = {top.rho:.4g}; no rho of any kernel is below {lower_bound:.4f}")

# Level 1 is optimal at that rho and kernel: its conditions for optimality are what the levels above rest on.
again = machine(kernels[name], X_train, y_train).solve(rho=top.rho)
difference = float(np.abs(again.predict(X_val) - top.predict(X_val)).max())
print(f"level 1, the parameters: solved again, predictions differ by {difference:.1e}")
print("maximal variations", again.maximal_variation.round(2), "\n")
print(top.certificate)

# %%
# One curve for each kernel; the dashed line is proved for all of them.
_, ax = plt.subplots(layout="constrained")
for kernel_name, fusion in fusions.items():
    ax.plot(fusion.path.values, fusion.path.validation_errors, label=kernel_name)
ax.axhline(lower_bound, color="0.5", linestyle="--", label="lower bound")
ax.set(xscale="log", xlabel="rho", ylabel="validation error (mean square)")
ax.set_title(f"Three levels: {name} kernel, rho = {top.rho:.3g}")
ax.legend()
plt.show()
