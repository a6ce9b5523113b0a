r"""How do I make a fit monotone, and what does it cost?
====================================================

A calibration curve is known to rise; the noisy sample does not. One constraint, written on values of the machine at a
grid of points, is enough, and its multipliers show where it costs something.

On the grid :math:`g_1 < \dots < g_{101}` from 0 to 10 the machine is

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + 10 \sum_{i=1}^N e_i^2 \quad \text{s.t.} \quad
    \begin{cases} y_i = w^T \varphi(x_i) + b + e_i, \quad i = 1, \dots, N, \\
    f(g_j) \le f(g_{j+1}), \quad j = 1, \dots, 100 \end{cases}
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import Machine, Substrate
from substrate.kernels import RBF

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0.0, 10.0, size=60))
truth = np.tanh(x - 3.0) + np.tanh(2.0 * (x - 8.0))
X, y = x[:, None], truth + 0.4 * rng.normal(size=60)
grid = np.linspace(0.0, 10.0, 101)[:, None]

s = Substrate(RBF(1.5), X, y)
objective = 0.5 * s.squared_norm + 10.0 * cp.sum_squares(s.e)
rising = s.f(grid[:-1]) <= s.f(grid[1:])

free = Machine(s, minimize=objective).solve()
monotone = Machine(s, minimize=objective, subject_to=[rising]).solve()

for name, result in (("free", free), ("monotone", monotone)):
    steps, error = np.diff(result.predict(grid)), np.sqrt(np.mean((result.f - truth) ** 2))
    print(
        f"{name:8s} objective {result.objective:6.2f}, falls on {np.sum(steps < -1e-7):3d} of 100 steps, "
        f"distance from the truth {error:.3f}"
    )

pressing = rising.dual_value > 1e-6
print(f"the constraint is active on {pressing.sum()} steps, most at x = {grid[rising.dual_value.argmax(), 0]:.1f}\n")
print(monotone.certificate)

# %%
# The constraint is active where the free fit falls, and changes little elsewhere.
_, ax = plt.subplots()
ax.plot(x, y, "o", color="0.7", markersize=4)
ax.plot(grid, monotone.predict(grid), label="monotone")
ax.plot(grid, free.predict(grid), label="free")
ax.plot(x, truth, ":", color="black", linewidth=1.5, label="truth")
ax.set(xlabel="x", ylabel="y", title="One constraint: it rises, and is nearer to the truth")
ax.legend()
plt.show()
