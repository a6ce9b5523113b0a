r"""How do I estimate a density?
============================

A density has no targets: it is positive (here on a grid), its integral is one, and it is large where the points are.
That is a machine of four lines, of the largest penalized likelihood. Once solved, it has integrals in closed form, such
as the probability of a negative number.

On the grid :math:`g_1, \dots, g_{111}` from -5 to 6, and without a bias, the machine is

.. math::

    \min_{w} \; -\tfrac{1}{N} \sum_{i=1}^N \log f(x_i) + 0.01\, w^T w \quad \text{s.t.} \quad
    f(x) = w^T \varphi(x), \quad \int_{-5}^{6} f(x)\, dx = 1, \quad f(g_j) \ge 0, \quad j = 1, \dots, 111
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import Machine, Substrate
from substrate.kernels import RBF

rng = np.random.default_rng(0)
points = np.concatenate([rng.normal(-1.5, 0.5, size=50), rng.normal(1.2, 0.9, size=70)])[:, None]
grid = np.linspace(-5.0, 6.0, 111)[:, None]
bell = np.exp(-0.5 * ((grid - [-1.5, 1.2]) / [0.5, 0.9]) ** 2) / np.array([0.5, 0.9]) / np.sqrt(2.0 * np.pi)
truth = bell @ [50 / 120, 70 / 120]

s = Substrate(RBF(1.5), points, bias=False)  # no targets
result = Machine(
    s,
    minimize=-cp.sum(cp.log(s.f())) / 120 + 0.01 * s.squared_norm,
    subject_to=[s.integral([[-5.0, 6.0]]) == 1.0, s.f(grid) >= 0.0],
).solve()
density = result.predict(grid)

whole, left = result.integral([[[-5.0, 6.0]], [[-5.0, 0.0]]])
print(f"integral {whole:.6f}, of the part below zero {left:.3f}")
print(f"mean distance from the truth {np.mean(np.abs(density - truth)):.4f}\n")
print(result.certificate)

# %%
# The density, the truth, and the points that it was estimated from.
plt.figure(figsize=(7.0, 4.0), layout="constrained")
plt.hist(points[:, 0], bins=24, density=True, color="0.85", label="points, in 24 cells")
plt.plot(grid, truth, color="0.5", linewidth=4, label="true density")
plt.plot(grid, density, label="kernel machine")
plt.plot(points[:, 0], np.full(120, -0.012), "k|", markersize=6)
plt.gca().set(xlabel="x", ylabel="density", title="Positive, with integral one, of the largest penalized likelihood")
plt.legend()
plt.show()
