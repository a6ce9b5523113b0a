"""Do the declared convex problem, its dual and the linear system give the same machine?
=====================================================================================

The LS-SVM is computed in three ways on the motorcycle data: from the primal and the dual as convex problems, each by
another solver, and from one linear system. The multipliers agree to the accuracy of the solvers, and gamma changes
without a new compilation.
"""

import numpy as np

from problems import ls_svm_regression
from substrate.datasets import motorcycle
from substrate.kernels import RBF

X, y = motorcycle()
K = RBF(sigma=6.6)(X)

primal = ls_svm_regression.declare(K, y, gamma=2.0).solve("CLARABEL")
dual = ls_svm_regression.declare(K, y, gamma=2.0, form="dual").solve("PIQP")
linear = ls_svm_regression.closed_form(K, y, gamma=2.0)

for name, alpha in (("primal", primal.support_values), ("dual", dual.support_values)):
    distance = np.abs(alpha - linear["support_values"]).max()
    print(f"{name:6s} multipliers differ from the closed form by {distance:.1e}")

# gamma is a cvxpy parameter: change it and solve again, without compiling the problem again
primal.parameters["gamma"].value = 50.0
primal.solve("CLARABEL")
print(f"at gamma = 50 the bias is {float(primal.bias):.4f}\n")

print(primal.certificate(against=ls_svm_regression.closed_form(K, y, gamma=50.0)))
