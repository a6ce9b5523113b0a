r"""Which inputs matter, and at which weight, with a proof that no other weight validates better?
=============================================================================================

Twelve inputs, four of which matter. The weight rho of the maximal variations is chosen by a validation set inside the
fit: the whole solution path is followed exactly, and a bound over all rho states how far from the global optimum the
choice can be. Refitted to the inputs that it selects, the machine predicts better, and rho is chosen by that.

It is the fusion of [Pelckmans2005]_ eq. (28), with the mean of the squares, in which the lower level is eq. (24), here
with a bias, and :math:`\Omega^{v,l}` has the kernel values of input l of the validation rows:

.. math::

    \min_{\rho \ge 0} \; \frac1n \Big\| y^v - \sum_l \Omega^{v,l} \alpha - b 1 \Big\|_2^2, \qquad
    (\alpha, b) \text{ minimises} \quad \tfrac12 \Big\| y - \sum_l \Omega^l \alpha - b 1 \Big\|_2^2
    + \rho \sum_{l=1}^{12} \max_i |\Omega^l_i \alpha| \quad \text{s.t.} \quad 1^T \alpha = 0
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import FusedMaximalVariationRegressor
from problems.displays import EvolutionDiagramDisplay
from substrate.datasets import additive_function
from substrate.kernels import RBF

X, y = additive_function(60, 12, random_state=0)
X_val, y_val = additive_function(60, 12, random_state=1)
model = FusedMaximalVariationRegressor(RBF(sigma=1.0), relevance=0.1).fit(X, y, X_val, y_val)

print(f"rho = {model.rho_:.4f}, on a path of {len(model.path_['values'])} knots")
print(
    f"validation error {model.criterion_:.6f}, and no rho from 0 on gives less than {model.criterion_lower_bound_:.6f}"
)
order = np.argsort(-model.maximal_variation_)
print(
    "inputs by maximal variation:",
    ", ".join(f"x{column + 1} {model.maximal_variation_[column]:.2f}" for column in order[:6]),
)
print("kept:", [f"x{column + 1}" for column in model.get_support(indices=True)])

grid = np.geomspace(0.01, model.path_["values"][-1], 7)
at = np.interp(grid, model.path_["values"], model.path_["criterion"])
print("along the path:", ", ".join(f"{rho:.3g}: {error:.3f}" for rho, error in zip(grid, at, strict=True)))

# Structure first, then a classical model: all sets that some rho selects are refitted, each at its best gamma.
refitted = FusedMaximalVariationRegressor(RBF(sigma=1.0), relevance=0.1, refit=True).fit(X, y, X_val, y_val)
print(f"refitted, of {len(refitted.selection_path_['start'])} intervals of rho:", end=" ")
print(f"{refitted.get_support(indices=True) + 1} at rho = {refitted.rho_:.3g}, gamma = {refitted.gamma_:.3g},", end=" ")
print(f"validation error {refitted.criterion_:.4f}; no rho gives less than {refitted.criterion_lower_bound_:.4f}\n")
print(model.certificate_)

# %%
# The variations above, the validation error and its bound below.
display = EvolutionDiagramDisplay.from_estimator(model)
display.axes_[0].set_title(f"x1 to x4, at rho = {model.rho_:.2g}: no rho validates better")
plt.show()
