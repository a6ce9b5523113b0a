r"""What if the effect of some inputs is linear?
============================================

A kernel fits what is smooth and unknown, coefficients that are not penalised fit the rest. They are numbers with
standard errors, and they extrapolate. Here the response rises with the dose at all hours alike, and is predicted at
doses that no row has.

With z the dose and x the hour, the partially linear machine is ([Espinoza2005b]_)

.. math::

    \min_{w, \beta, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{i=1}^N e_i^2
    \quad \text{s.t.} \quad y_i = \beta z_i + w^T \varphi(x_i) + b + e_i, \quad i = 1, \dots, N

and :math:`\gamma` is the one with the largest evidence.
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressorCV
from substrate.kernels import RBF

rng = np.random.default_rng(0)
n = 80
dose = rng.uniform(0.0, 2.0, size=n)
hour = rng.uniform(0.0, 24.0, size=n)
X = np.column_stack([dose, hour])
y = 1.5 * dose + np.sin(2.0 * np.pi * hour / 24.0) + 0.2 * rng.normal(size=n)

plain = LSSVMRegressorCV(RBF("each"), cv="evidence").fit(X, y)
model = LSSVMRegressorCV(RBF(sigma=6.0), cv="evidence", linear_columns=[0]).fit(X, y)
print(f"effect of one unit of the dose: {model.coef_[0]:.3f}, in truth 1.5")

# the same hours, at doses that no row has
beyond = np.column_stack([np.linspace(0.0, 5.0, 200), np.full(200, 6.0)])
truth = 1.5 * beyond[:, 0] + 1.0
for name, machine in {"kernel alone": plain, "partially linear": model}.items():
    left_out = machine.leave_one_out()
    far = np.sqrt(np.mean((machine.predict(beyond) - truth)[beyond[:, 0] > 2.0] ** 2))
    print(f"{name:16s} left-out error {np.sqrt(left_out.mean_square):.3f}, error beyond the largest dose {far:.3f}")

print()
print(model.certificate_)

# %%
# No row has a dose above two.
_, ax = plt.subplots()
predicted, deviation = model.predict(beyond, return_std=True)
ax.fill_between(beyond[:, 0], predicted - deviation, predicted + deviation, color="0.9", label="a standard deviation")
ax.plot(beyond[:, 0], plain.predict(beyond), "--", label="kernel alone")
ax.plot(beyond[:, 0], predicted, label="partially linear")
ax.plot(beyond[:, 0], truth, ":", color="black", linewidth=1.5, label="truth")
ax.axvline(2.0, color="0.6", linewidth=0.8)
ax.set(xlabel="dose, units", ylabel="response at six o'clock", title="Then a coefficient goes on where the rows end")
ax.legend()
plt.show()
