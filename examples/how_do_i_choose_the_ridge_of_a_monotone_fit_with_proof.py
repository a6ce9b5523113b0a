r"""How do I choose the ridge of a monotone fit with proof?
=======================================================

A constraint on the shape leaves no closed form, and no path that is piecewise affine in the ridge. One inequality
bounds the validation error between the solved ridges all the same. Left is what was solved and what is proved, right
the fit that was chosen.

On a grid of points :math:`g_1 < \dots < g_{41}` and with the ridge :math:`\tau`, from 0.01 to 100, the machine is

.. math::

    \min_{w, b, e} \; \tfrac12 \sum_{i=1}^N e_i^2 + \tfrac{\tau}{2} w^T w \quad \text{s.t.} \quad
    \begin{cases} y_i = w^T \varphi(x_i) + b + e_i, \quad i = 1, \dots, N, \\
    f(g_j) \le f(g_{j+1}), \quad j = 1, \dots, 40 \end{cases}
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import Machine, Substrate, fuse
from substrate.kernels import RBF

rng = np.random.default_rng(1)
x = np.sort(rng.uniform(0.0, 10.0, size=60))
y = np.tanh(x - 3.0) + np.tanh(2.0 * (x - 8.0)) + 0.4 * rng.normal(size=60)
train, validation = np.arange(0, 60, 2), np.arange(1, 60, 2)
grid = np.linspace(0.0, 10.0, 41)[:, None]

s = Substrate(RBF(1.5), x[train, None], y[train])
ridge = cp.Parameter(nonneg=True, name="ridge")
objective = 0.5 * cp.sum_squares(s.e) + 0.5 * ridge * s.squared_norm
machine = Machine(s, minimize=objective, subject_to=[s.f(grid[:-1]) <= s.f(grid[1:])])

best = fuse(machine, over=ridge, validation=(x[validation, None], y[validation]), gap=0.01, box={"ridge": (1e-2, 1e2)})
print(f"ridge = {best.ridge:.4g}: validation error {best.validation_error:.5f}")
print(f"no ridge from 0.01 to 100 is below {best.lower_bound:.5f}; {best.path.stop}\n")

print(best.certificate)

# %%
# Left the error at the solved ridges and the bound for all others, right the fit that was chosen.
_, (left, right) = plt.subplots(1, 2, figsize=(9.0, 4.0), layout="constrained")
best.plot(left)
left.set_title(f"No ridge is better by more than {best.gap:.1%}")
right.plot(x[train], y[train], "o", color="0.7", markersize=4, label="training")
right.plot(x[validation], y[validation], "x", color="0.4", markersize=5, label="validation")
right.plot(grid, best.predict(grid), label="monotone fit")
right.set(xlabel="x", ylabel="y", title="The fit at this ridge")
right.legend()
plt.show()
