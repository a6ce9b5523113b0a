r"""Do the declared convex problem, its dual and the linear system give the same machine?
=====================================================================================

The LS-SVM is computed in three ways on the motorcycle data: from the primal and the dual as convex problems, each by
another solver, and from one linear system. The multipliers agree to the accuracy of the solvers, and gamma changes
without a new compilation.

The primal problem is [Suykens2002]_ eq. (1), here with :math:`\gamma = 2`, and its conditions of optimality, without w
and e, are the linear system of eq. (5):

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{i=1}^N e_i^2
    \quad \text{s.t.} \quad y_i = w^T \varphi(x_i) + b + e_i, \quad i = 1, \dots, N

.. math::

    \begin{bmatrix} 0 & 1^T \\ 1 & K + I/\gamma \end{bmatrix}
    \begin{bmatrix} b \\ \alpha \end{bmatrix} = \begin{bmatrix} 0 \\ y \end{bmatrix}
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import ls_svm_regression
from substrate.datasets import motorcycle
from substrate.kernels import RBF

X, y = motorcycle()
K = RBF(sigma=6.6)(X)

primal = ls_svm_regression.declare(K, y, gamma=2.0).solve("CLARABEL")
dual = ls_svm_regression.declare(K, y, gamma=2.0, form="dual").solve("PIQP")
linear = ls_svm_regression.closed_form(K, y, gamma=2.0)

solutions = {"primal": np.array(primal.support_values), "dual": np.array(dual.support_values)}
for name, alpha in solutions.items():
    distance = np.abs(alpha - linear["support_values"]).max()
    print(f"{name:6s} multipliers differ from the closed form by {distance:.1e}")

# gamma is a cvxpy parameter: change it and solve again, without compiling the problem again
primal.parameters["gamma"].value = 50.0
primal.solve("CLARABEL")
print(f"at gamma = 50 the bias is {float(primal.bias):.4f}\n")

print(primal.certificate(against=ls_svm_regression.closed_form(K, y, gamma=50.0)))

# %%
# All 133 multipliers of both convex problems agree with the linear system.
_, ax = plt.subplots()
ax.axline((0.0, 0.0), slope=1.0, color="0.7", linewidth=1.0)
ax.plot(linear["support_values"], solutions["primal"], "o", fillstyle="none", markersize=8, label="primal, CLARABEL")
ax.plot(linear["support_values"], solutions["dual"], "x", color="black", markersize=5, label="dual, PIQP")
ax.set(xlabel="support value, linear system", ylabel="support value, convex problem")
ax.set_title(f"Yes: at most {distance:.0e} apart")
ax.legend()
plt.show()
