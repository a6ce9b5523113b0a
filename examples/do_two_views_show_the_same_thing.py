r"""Do two views show the same thing?
=================================

Kernel CCA finds functions of two sets of columns whose values go together. Without regularisation it finds them in
noise too; here the weight is the one with the largest correlation of rows left out. Both views see one hidden number,
the second only through a cosine, so that the columns themselves hardly correlate; the scores of new rows do.

The scores :math:`e_i` of the first view and :math:`r_i` of the second are a stationary point of a difference of squares
([Suykens2002b]_ chapter 8), in which :math:`\nu_1` and :math:`\nu_2` weigh the variances:

.. math::

    \max_{w, v, e, r} \; \gamma \sum_{i=1}^N e_i r_i - \tfrac{\nu_1}{2} \sum_i e_i^2 - \tfrac{\nu_2}{2} \sum_i r_i^2
    - \tfrac12 w^T w - \tfrac12 v^T v
    \quad \text{s.t.} \quad e_i = w^T (\varphi_1(x_i) - \bar\varphi_1), \;
    r_i = v^T (\varphi_2(z_i) - \bar\varphi_2)
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import KernelCCA
from substrate.kernels import RBF

rng = np.random.default_rng(0)
hidden = rng.uniform(-1.0, 1.0, 300)
X = np.column_stack([hidden, rng.normal(size=300)]) + 0.1 * rng.normal(size=(300, 2))
Y = np.column_stack([np.cos(4.0 * hidden), rng.normal(size=300)]) + 0.1 * rng.normal(size=(300, 2))
train, new = slice(0, 150), slice(150, 300)

model = KernelCCA(RBF(1.0), 1, kernel_y=RBF(1.0)).fit(X[train], Y[train])
linear = abs(np.corrcoef(X[new, 0], Y[new, 0])[0, 1])
print(f"correlation of training rows {model.correlations_[0]:.3f}, of new rows {model.score(X[new], Y[new]):.3f}")
print(f"the columns themselves, of new rows: {linear:.3f}\n")
print(model.certify(X[train], Y[train]))

# %%
# What was left out chooses the weight, and the scores of new rows go together.
figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained")
axes[0].semilogx(model.candidate_nus_, model.candidate_criteria_, "-o")
axes[0].set(xlabel="weight of the variances (its unit: 1 / trace)", ylabel="correlation of rows left out")
axes[0].set_title("Too little regularisation finds noise")
first, second = model.transform(X[new], Y[new])
axes[1].plot(first[:, 0], second[:, 0], "o", markersize=4)
axes[1].set(xlabel="score of the first view", ylabel="score of the second view", title="150 new rows")
plt.show()
