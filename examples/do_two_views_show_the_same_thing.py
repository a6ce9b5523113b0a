"""Do two views show the same thing?
=================================

Kernel CCA finds functions of two sets of columns whose values go together. Without regularisation it finds them in
noise too; here the weight is the one with the largest correlation of rows left out.
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
