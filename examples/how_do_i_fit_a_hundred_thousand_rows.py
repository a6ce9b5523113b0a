r"""How do I fit a hundred thousand rows, and leave each of them out?
=================================================================

The kernel matrix of all pairs would take 80 GB. On a reduced basis only sums over the rows are kept: a fit is one pass
to compute them, from which the result is checked too, leave-one-out is one more, and memory does not depend on the
number of rows.

Only the 60 vectors of the basis S are in the expansion, but the errors of all N rows are in the objective
([Cawley2004]_ eq. (2), whose :math:`\gamma` is half of this one):

.. math::

    \min_{\beta, b, e} \; \tfrac12 \beta^T K_{SS} \beta + \tfrac{\gamma}{2} \sum_{i=1}^N e_i^2
    \quad \text{s.t.} \quad y_i = \sum_{j \in S} \beta_j k(x_i, x_j) + b + e_i, \quad i = 1, \dots, N
"""

import tracemalloc

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor
from substrate.basis import Basis
from substrate.kernels import RBF

rng = np.random.default_rng(0)
X = rng.uniform(-3.0, 3.0, size=(100_000, 2))
y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.standard_normal(100_000)

tracemalloc.start()
model = LSSVMRegressor(RBF(sigma=1.5), gamma=10.0, basis=Basis(60, random_state=0)).fit(X, y)
peak = tracemalloc.get_traced_memory()[1] / 2**20
tracemalloc.stop()
print(f"{model.support_.size} vectors, reconstruction error {model.reconstruction_error_:.1e}")
print(f"{peak:.0f} MiB above the data")

left_out = model.leave_one_out(X, y)
print(f"left out: root mean square {np.sqrt(left_out.mean_square):.4f}, the noise is 0.3000")
print(f"{left_out.degrees_of_freedom:.1f} degrees of freedom; one pass over the rows, no refit")
worst = int(np.abs(left_out.residuals).argmax())
print(f"most surprising row: {worst}, target {y[worst]:.2f}, predicted without it {left_out.outputs[worst]:.2f}\n")
print(left_out.certificate, end="\n\n")
print(model.certificate_)

# %%
# What is held in memory: sums over the rows instead of the kernel matrix.
sizes = {"all pairs": X.shape[0] ** 2 * 8 / 2**20, "the rows": X.nbytes / 2**20, "60 vectors": peak}
_, ax = plt.subplots()
bars = ax.barh(list(sizes), list(sizes.values()), color=["0.7", "0.7", "#b03060"])
ax.bar_label(bars, fmt=lambda size: f"{size:,.1f} MiB", padding=4)
ax.set(xscale="log", xlim=(0.1, 1e7), xlabel="memory (MiB)", title="On 60 vectors, without the kernel matrix")
plt.show()
