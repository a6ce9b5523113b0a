r"""How do I make a fit monotone and convex, by its derivatives?
============================================================

A cost curve is known to rise, and to rise faster and faster. Both are constraints on the derivative of the machine: it
is never negative, and it never falls. Isotonic regression is monotone too, but it is a staircase and cannot be convex.

On the grid :math:`g_1 < \dots < g_{33}` from 0 to 4 the machine with both shapes is

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + 10 \sum_{i=1}^N e_i^2 \quad \text{s.t.} \quad
    \begin{cases} y_i = w^T \varphi(x_i) + b + e_i, \quad i = 1, \dots, N, \\
    0 \le f'(g_1) \le f'(g_2) \le \dots \le f'(g_{33}) \end{cases}
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.isotonic import IsotonicRegression

from substrate import Machine, Substrate
from substrate.kernels import RBF

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0.0, 4.0, size=50))
X, truth = x[:, None], np.maximum(x - 1.0, 0.0) ** 2
y = truth + 1.0 * rng.normal(size=50)
grid, fine = np.linspace(0.0, 4.0, 33)[:, None], np.linspace(0.0, 4.0, 401)[:, None]

s = Substrate(RBF(1.0), X, y)
objective = 0.5 * s.squared_norm + 10.0 * cp.sum_squares(s.e)
slope = s.gradient(grid, 0)  # affine, as s.f is; its points join the expansion
fits = {
    "free": Machine(s, minimize=objective).solve(),
    "monotone": Machine(s, minimize=objective, subject_to=[slope >= 0]).solve(),
    "monotone, convex": Machine(s, minimize=objective, subject_to=[slope[0] >= 0, cp.diff(slope) >= 0]).solve(),
}
values = {name: fit.predict(fine) for name, fit in fits.items()}
values["isotonic regression"] = IsotonicRegression(out_of_bounds="clip").fit(x, y).predict(fine[:, 0])

true_values = np.maximum(fine[:, 0] - 1.0, 0.0) ** 2
for name, f in values.items():
    slopes = np.diff(f) / 0.01
    falls, bends = (np.maximum(-violations, 0.0).sum() for violations in (np.diff(f), np.diff(slopes)))
    print(
        f"{name:20s} distance from the truth {np.sqrt(np.mean((f - true_values) ** 2)):.3f}, "
        f"falls by {falls:.2f} and its slope by {bends:.2f}, in all"
    )

shaped = fits["monotone, convex"]
(further,) = shaped.further
print(f"\ncoefficients: {shaped.alpha.size} of rows, {further.coefficients.size} of derivatives\n")
print(shaped.certificate)

# %%
# With both constraints the fit is smooth and the nearest to the truth.
_, ax = plt.subplots()
ax.plot(x, y, "o", color="0.7", markersize=4)
for name in ("monotone, convex", "free", "isotonic regression"):
    ax.plot(fine, values[name], label=name)
ax.plot(fine, true_values, ":", color="black", linewidth=1.5, label="truth")
ax.set(xlabel="quantity", ylabel="cost", title="By two constraints on its derivative")
ax.legend()
plt.show()
