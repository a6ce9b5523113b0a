r"""How do I fit a differential equation?
=====================================

A damped oscillator was measured a few times, and only early on. Its equation of motion, asked for on a grid, carries
the fit to where nothing was measured. It is a squared penalty here, not a constraint, and the last number printed says
how well it is met.

Derivatives of f are linear in w, as f is, so that with the grid :math:`g_1, \dots, g_{41}` from 0 to 8 the machine
stays a least-squares problem:

.. math::

    \min_{w, b, e} \; \sum_{i=1}^N e_i^2 + 10^{-3} w^T w
    + \frac{10}{41} \sum_{j=1}^{41} \big( f''(g_j) + 0.4 f'(g_j) + 4 f(g_j) \big)^2
    \quad \text{s.t.} \quad y_i = w^T \varphi(t_i) + b + e_i
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import LinearOperator, Machine, Substrate
from substrate.kernels import RBF

rng = np.random.default_rng(0)
damping, stiffness = 0.4, 4.0
frequency = np.sqrt(stiffness - damping**2 / 4.0)
t = np.sort(rng.uniform(0.0, 3.0, size=12))
y = np.exp(-damping * t / 2.0) * np.cos(frequency * t) + 0.05 * rng.normal(size=12)
grid, fine = np.linspace(0.0, 8.0, 41)[:, None], np.linspace(0.0, 8.0, 401)[:, None]
truth = np.exp(-damping * fine[:, 0] / 2.0) * np.cos(frequency * fine[:, 0])

s = Substrate(RBF(1.5), t[:, None], y)
# f'' + damping f' + stiffness f
motion = (
    LinearOperator.derivative({0: 2}) + damping * LinearOperator.derivative({0: 1}) + stiffness * LinearOperator.value()
)
fit = cp.sum_squares(s.e) + 1e-3 * s.squared_norm
plain = Machine(s, minimize=fit).solve().predict(fine)
result = Machine(s, minimize=fit + 10.0 * cp.sum_squares(s.apply(motion, grid)) / 41).solve()
f = result.predict(fine)

errors = [np.abs(values - truth).max() for values in (f, plain)]
print(f"largest error from 0 to 8: {errors[0]:.3f}, without the equation {errors[1]:.3f}")
print(f"largest residual of the equation: {np.abs(result.apply(motion, fine)).max():.3f}\n")
print(result.certificate)

# %%
# Both fits through the same twelve measurements.
plt.figure(figsize=(7.0, 4.0), layout="constrained")
plt.plot(fine, truth, color="0.6", linewidth=4, label="true motion")
plt.plot(fine, plain, "--", label="kernel machine")
plt.plot(fine, f, label="with the equation of motion")
plt.plot(t, y, "ko", markersize=4, label="measured")
plt.gca().set(xlabel="time (s)", ylabel="displacement", title="The equation carries the fit beyond the measurements")
plt.legend()
plt.show()
