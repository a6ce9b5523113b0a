r"""How do I choose gamma, and how do I know that no other gamma is better?
=======================================================================

One eigendecomposition per kernel gives the leave-one-out error at every gamma; branch and bound gives the best of the
whole range together with a lower bound. The same is done for one validation set: training and validation are one
problem, with gamma among its unknowns.

The leave-one-out error needs no refit, since with B the block of the inverse of the LS-SVM's system that maps y to
:math:`\alpha` it is

.. math::

    \min_{\gamma} \; \frac1N \sum_{i=1}^N \Big( \frac{\alpha_i(\gamma)}{B_{ii}(\gamma)} \Big)^2

and the fusion with a validation set is [Pelckmans2005]_ eq. (19):

.. math::

    \min_{\gamma, \alpha, b} \; \|y^v - K^v \alpha - b 1\|_2^2 \quad \text{s.t.} \quad
    \begin{bmatrix} 0 & 1^T \\ 1 & K + I/\gamma \end{bmatrix}
    \begin{bmatrix} b \\ \alpha \end{bmatrix} = \begin{bmatrix} 0 \\ y \end{bmatrix}
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressorCV, tikhonov_fusion
from problems.displays import CriterionDisplay
from substrate.datasets import motorcycle
from substrate.kernels import RBF, Matern

X, y = motorcycle()
candidates = [*(RBF(sigma) for sigma in (3.0, 5.0, 10.0, 20.0)), Matern(20.0), Matern(50.0)]
model = LSSVMRegressorCV(kernels=candidates, cv="loo", gap=1e-4).fit(X, y)
print(f"{model.kernel_!r}, gamma = {model.gamma_:.4g}")
print(f"leave-one-out error {np.sqrt(model.criterion_):.6f} g; no gamma of the range, with any of the kernels,")
print(f"          is better than {np.sqrt(model.criterion_lower_bound_):.6f} g\n")

results = model.cv_results_
for k in np.argsort(results["rank_test_score"]):
    params, error = results["params"][k], np.sqrt(-results["mean_test_score"][k])
    print(f"{params['kernel']!r:28} gamma {params['gamma']:9.4g}, error {error:.3f} g")

# the kernel's width as well, by its slopes from there: a local one, as the certificate states
wider = LSSVMRegressorCV(model.kernel_, search="gradient").fit(X, y)
print(f"\nlocal search: {wider.kernel_!r}, error {np.sqrt(wider.criterion_):.4f} g")

# one validation set instead: training and validation fused into one problem with gamma among its unknowns
train, valid = slice(1, None, 2), slice(0, None, 2)
kernel = RBF(10.0)
optimum = tikhonov_fusion.search(kernel(X[train]), y[train], kernel(X[valid], X[train]), y[valid])
print(f"fused with a validation set: gamma = {optimum.gamma[0]:.4g}, {optimum.intervals} intervals\n")
print(model.certificate_)

# %%
# The criterion over the whole range, and the bound that no gamma in it can beat.
display = CriterionDisplay.from_estimator(model)
gap = 1.0 - model.criterion_lower_bound_ / model.criterion_
display.ax_.set_title(f"No gamma is better by more than {gap:.0e} of the error")
plt.show()
