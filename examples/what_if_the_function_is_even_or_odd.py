r"""What if the function is known to be even or odd?
================================================

A machine that knows the symmetry learns from both sides of the origin at once: with observations on one side only it is
right on the other, where the plain machine falls back to its bias. A wrong symmetry, even here, shows in the error on
the other side.

With s = 1 for an even function and s = -1 for an odd one, the symmetric machine is ([Espinoza2005]_)

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{i=1}^N e_i^2 \quad \text{s.t.} \quad
    y_i = w^T \varphi(x_i) + b + e_i, \quad w^T \varphi(x_i) = s\, w^T \varphi(-x_i), \quad i = 1, \dots, N

which is the LS-SVM with the kernel :math:`\tfrac12 \big(k(x, z) + s\, k(-x, z)\big)`.
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor
from substrate.kernels import RBF, Symmetric

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 3.0, size=(60, 1))
truth = np.sin(2.0 * X[:, 0])
y = truth + 0.1 * rng.normal(size=60)
points = np.linspace(-3.0, 3.0, 200)[:, None]
is_negative = points[:, 0] < 0.0
wanted = np.sin(2.0 * points[:, 0])

kernel, gamma = RBF(sigma=1.0), 100.0
machines = {
    "plain": LSSVMRegressor(kernel, gamma).fit(X, y),
    "odd": LSSVMRegressor(Symmetric(kernel, "odd"), gamma).fit(X, y),
    "even": LSSVMRegressor(Symmetric(kernel, "even"), gamma).fit(X, y),
}
for name, model in machines.items():
    errors = model.predict(points) - wanted
    sides = [np.sqrt(np.mean(errors[side] ** 2)) for side in (~is_negative, is_negative)]
    loo = model.leave_one_out()
    print(
        f"{name:5s} distance from the truth {sides[0]:.3f} where data are, {sides[1]:.3f} on the other side, "
        f"left-out error {np.sqrt(np.mean(loo.residuals**2)):.3f}"
    )

# f - b is even or odd: the bias is not part of the symmetry
odd = machines["odd"]
distance = np.abs(odd.predict(points) + odd.predict(-points) - 2.0 * odd.bias_).max()
print(f"f(x) + f(-x) - 2 b is at most {distance:.1e}, b is {odd.bias_:.3f}\n")

print(odd.certificate_)

# %%
# All observations are at the right of zero.
_, ax = plt.subplots()
ax.plot(X, y, "o", color="0.7", markersize=4)
for name in ("odd", "plain"):
    ax.plot(points, machines[name].predict(points), label=f"{name} machine")
ax.plot(points, wanted, ":", color="black", linewidth=1.5, label="truth")
ax.set(xlabel="x", ylabel="y", title="Then data on one side of the origin are enough")
ax.legend()
plt.show()
