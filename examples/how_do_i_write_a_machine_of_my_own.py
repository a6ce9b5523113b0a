r"""How do I write a kernel machine of my own, with a penalty and a constraint that no package implements?
======================================================================================================

The function has four relevant inputs and two irrelevant ones. The machine penalises the largest value that each
component takes (so that irrelevant ones shrink) and must rise in the third input, as is known of the function.

With :math:`f = \sum_l f^l + b`, and with pairs of points :math:`z_j` and :math:`z'_j` that differ in the third input
only, it is

.. math::

    \min_{\alpha, b, e, t} \; \tfrac12 \sum_{i=1}^N e_i^2 + \rho \sum_{l=1}^6 t_l \quad \text{s.t.} \quad
    \begin{cases} y_i = f(x_i) + e_i, \quad |f^l(x_i)| \le t_l, \quad i = 1, \dots, N, \\
    f(z_j) \le f(z'_j), \quad z'_j = z_j + 0.05\, u_3, \quad j = 1, \dots, 20 \end{cases}

with :math:`u_3` the third unit vector.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import Machine, Substrate
from substrate.datasets import additive_function
from substrate.kernels import RBF, Componentwise

X, y = additive_function(n_samples=80, n_features=6, random_state=1)
X_test, y_test = additive_function(n_samples=500, n_features=6, noise=0.0, random_state=2)
X_low = np.full((20, 6), 0.5)
X_low[:, 2] = np.linspace(0.0, 0.95, 20)
X_high = X_low + 0.05 * np.eye(6)[2]

s = Substrate(Componentwise(RBF(1.0)), X, y)  # level 1: alpha, b, c, e as cvxpy expressions
rho = cp.Parameter(nonneg=True, name="rho")
machine = Machine(
    s,
    minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation),
    subject_to=[s.f(X_low) <= s.f(X_high)],
)

solutions = {}
for value in (0.1, 3.0, 30.0):  # compiled once, solved three times
    result = machine.solve(rho=value)
    solutions[value] = result.maximal_variation
    error = np.sqrt(np.mean((result.predict(X_test) - y_test) ** 2))
    print(f"rho = {value:4g}: maximal variation {result.maximal_variation.round(2)}, error on new points {error:.2f}")

print()
print(result.certificate)

# %%
# The larger the penalty, the smaller the components of the inputs 5 and 6, which do not matter.
_, ax = plt.subplots()
for k, (value, variation) in enumerate(solutions.items()):
    ax.bar(np.arange(1, 7) + 0.27 * (k - 1), variation, width=0.25, label=f"rho = {value:g}")
ax.set(xlabel="input", ylabel="maximal variation (units of y)", title="In cvxpy: here, irrelevant inputs shrink")
ax.legend()
plt.show()
