r"""Why is the fusion of training and validation not a convex problem, and what solves it?
======================================================================================

Two training points are enough to see it: the penalised program (29) of Pelckmans, Suykens and De Moor (2005) against
the program (28) that it should replace, and against ``fuse``. The paper calls (29) a quadratic program with the
solution of (28); here its penalty lies above a chord, and its optimum, at the paper's weight 1, below the error of
every trained machine.

The training problem has the optimality conditions (27), of which (27e) and (27f) say that the products in the large
brackets are zero; (29) moves these into the objective with the weight :math:`\omega`, 1 in the paper
([Pelckmans2005]_):

.. math::

    (28): \quad \min_{\rho, \alpha, b, t, \xi} \; \|y^v - \Omega^v \alpha - b 1\|_2^2 \quad \text{s.t. (27a)-(27f)}

.. math::

    (29): \quad \min_{\rho, \alpha, b, t, \xi} \; \|y^v - \Omega^v \alpha - b 1\|_2^2 + \omega \sum_l \Big(
    \xi^{-lT} (t_l 1 + \Omega^l \alpha) + \xi^{+lT} (t_l 1 - \Omega^l \alpha) \Big) \quad \text{s.t. (27a)-(27d)}
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from problems import FusedMaximalVariationRegressor, fused_maximal_variation
from substrate import Machine, Substrate, fuse
from substrate.ingredients import complementary_slackness
from substrate.kernels import Componentwise, Linear

# Two training points with the kernel matrix I, one validation point with the row (2, 0), targets (1, -1) and 4.
X, y, X_val, y_val = np.eye(2), np.array([1.0, -1.0]), np.array([[2.0, 0.0]]), np.array([4.0])
data = {"K": [np.eye(2)], "y": y, "K_val": np.array([[2.0, 0.0]]), "y_val": y_val}


def penalty(rho: float, t: float, a: float) -> float:
    """Return the sum of products for alpha = (a, -a): |alpha|^2 - y'alpha + rho t."""
    return 2.0 * a * a - 2.0 * a + rho * t


# 1. The penalty of (29) is not convex: half way between two points it is above their mean.
ends, middle = (penalty(0.0, 3.0, 1.0), penalty(2.0, 1.0, 1.0)), penalty(1.0, 2.0, 1.0)
print(f"penalty at two feasible points {ends[0]:g} and {ends[1]:g}, half way between them {middle:g}")

# 2. For each rho it is a convex problem; over all rho its value is below the error of any trained machine.
for rho in (0.25, 0.5, 1.0):
    declared = fused_maximal_variation.declare(**data, rho=rho, weight=1.0).solve()
    print(f"(29) at rho = {rho:4.2f}, weight 1: value {declared.problem.value:.4f}, alpha {declared.support_values}")

# 3. The check that the paper itself requires fails at the optimum of (29), alpha = (1.25, -1.25) and rho = 0.5.
report = complementary_slackness([[1.25, -1.25]], [1.25], xi_minus=[[0.25, 0.0]], xi_plus=[[0.0, 0.25]])
print(f"products {report.products}\n{report.verdict}")

# 4. Over all rho: (28) by the exact path has the value 4; (29) on a grid of rho has 3.5, and 4 from weight 2 on.
model = FusedMaximalVariationRegressor(Componentwise((Linear().on(0, 1),))).fit(X, y, X_val, y_val)
print(f"(28)             value {model.criterion_:.4f}, proved to be at least {model.criterion_lower_bound_:.4f}")
grid = [1e-6, *np.arange(0.1, 0.91, 0.1)]
for weight in (1.0, 1.5, 2.0, 4.0):
    solved = [fused_maximal_variation.declare(**data, rho=rho, weight=weight).solve() for rho in grid]
    best = min(solved, key=lambda declared: declared.problem.value)
    print(f"(29) weight {weight:<3g} value {best.problem.value:.4f}, products {best.complementarity:.4f}")

# 5. fuse solves (28) itself, at any size: it follows the machine over all rho and bounds the error in between.
s = Substrate(Linear(), X, y)
rho = cp.Parameter(nonneg=True, name="rho")
machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.norm_inf(s.component(0)))
best = fuse(machine, over=rho, validation=(X_val, y_val), box={rho: (0.0, 10.0)})
print(f"fuse: rho {best.rho:g}, validation error {best.validation_error:.4f}, lower bound {best.lower_bound:.4f}\n")
print(best.certificate)

# %%
# On the segment between two feasible points a convex function is nowhere above the chord.
share = np.linspace(0.0, 1.0, 101)
_, ax = plt.subplots()
ax.plot(share, [penalty(2.0 * at, 3.0 - 2.0 * at, 1.0) for at in share], label="penalty of (29)")
ax.plot([0.0, 1.0], ends, label="its chord")
ax.set(xlabel="share of the way between two feasible points", ylabel="penalty")
ax.set_title("The penalty lies above its chord; fuse solves (28)")
ax.legend()
plt.show()
