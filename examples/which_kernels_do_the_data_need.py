r"""Which of several kernels do the data need?
==========================================

The sum of the norms of several substrates is the penalty of multiple kernel learning: it sets whole functions to zero.
Here every input has one kernel, and two of five matter. The same solution is found by alternation with an LS-SVM whose
kernel is a weighted sum.

Norms, and not their squares, are what makes zeros exact ([Bach2004]_):

.. math::

    \min_{w, b, e} \; \tfrac12 \sum_{i=1}^N e_i^2 + 3 \sum_{k=1}^5 \|w_k\|_2
    \quad \text{s.t.} \quad y_i = \sum_{k=1}^5 w_k^T \varphi_k(x_{ik}) + b + e_i, \quad i = 1, \dots, N
"""

from functools import reduce
from operator import add

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor
from substrate import Machine, Substrate
from substrate.kernels import RBF, Kernel

rng = np.random.default_rng(1)
X = rng.uniform(-2.0, 2.0, size=(60, 5))
y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.2 * rng.normal(size=60)
weight = 3.0

# summands of one output: one bias
substrates = [Substrate(RBF(1.0).on(k), X, y, bias=k == 0, name=f"input {k}") for k in range(5)]
errors = y - sum(s.f() for s in substrates)
cost = 0.5 * cp.sum_squares(errors) + weight * sum(s.norm for s in substrates)
result = Machine(substrates, minimize=cost, predict=sum(substrates)).solve()
norms = np.array([result[s].norm for s in substrates])
print("norms of the functions:        ", norms.round(4))


def weighted(d: np.ndarray) -> Kernel:
    """Return the sum of the kernels with these weights."""
    return reduce(add, (float(weight) * s.kernel for weight, s in zip(d, substrates, strict=True)))


# the same by alternation: weight |w| is the least weight (|w|^2 / d + d) / 2 over d, attained at d = |w|
d = np.ones(5)
for _ in range(100):
    fit = LSSVMRegressor(kernel=weighted(d / weight), gamma=1.0).fit(X, y)
    a = fit.support_values_
    d = d / weight * np.sqrt([max(float(a @ s.kernel(X) @ a), 0.0) for s in substrates])
e = y - fit.predict(X)
print("by alternation with the LS-SVM:", d.round(4))
print(f"objective {result.objective:.6f}; by alternation {0.5 * e @ e + weight * d.sum():.6f}\n")

print(result.certificate)

# %%
# The norms of the functions that the data do not need are zero.
_, ax = plt.subplots()
ax.bar(range(5), norms, color="#b03060", label="machine")
ax.plot(range(5), d, "x", color="black", markersize=9, label="by alternation")
ax.set(xlabel="kernel of input", ylabel="norm of its function", title="Two of five: the norms of the others vanish")
ax.legend()
plt.show()
