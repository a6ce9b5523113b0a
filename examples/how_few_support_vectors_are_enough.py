r"""How few support vectors are enough?
===================================

In an LS-SVM nearly every row is a support vector. The second level is the 1-norm of the support values: the larger its
weight, the fewer vectors remain, with exact zeros. Three weights are compared with the dense machine, by the number of
their vectors and by the accuracy on a thousand test points.

The machine is [Pelckmans2005]_ eq. (16), whose :math:`\zeta` is twice this one, with the errors of classification:

.. math::

    \min_{\alpha, b, e} \; \tfrac12 \sum_{i=1}^N e_i^2 + \zeta \sum_{i=1}^N |\alpha_i|
    \quad \text{s.t.} \quad y_i \Big( \sum_{j=1}^N \alpha_j y_j k(x_j, x_i) + b \Big) = 1 - e_i, \quad y^T \alpha = 0
"""

import matplotlib.pyplot as plt

from problems import L1SubstrateClassifier, LSSVMClassifier
from problems.displays import SupportVectorsDisplay
from substrate.datasets import ripley
from substrate.kernels import RBF

X, y = ripley()
X_test, y_test = ripley(subset="test")
kernel = RBF(sigma=0.5)

dense = LSSVMClassifier(kernel=kernel, gamma=1.0).fit(X, y)
print(f"dense LS-SVM         {dense.support_.size:3d} vectors, test accuracy {dense.score(X_test, y_test):.3f}")

for zeta in (0.5, 2.0, 8.0):
    sparse = L1SubstrateClassifier(kernel=kernel, zeta=zeta).fit(X, y)
    accuracy = sparse.score(X_test, y_test)
    print(f"L1 substrate {zeta:4.1f}    {sparse.n_support_:3d} vectors, test accuracy {accuracy:.3f}")

# the zeros are exact: rows outside the support are not stored, and the certificate checks the bound on each of them
print()
print(sparse.certificate_)

# %%
# The rings are the support vectors that remain, and the lines the classifier they carry.
display = SupportVectorsDisplay.from_estimator(sparse, X, y, names=["x1 (no unit)", "x2 (no unit)"])
display.ax_.set_title(f"{sparse.n_support_} of {y.size}: test accuracy {accuracy:.3f}")
plt.show()
