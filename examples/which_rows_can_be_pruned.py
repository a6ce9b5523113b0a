r"""Which rows can be pruned, and how far does it go?
=================================================

Algorithm 2 of Suykens and others (2002) repeatedly drops the rows with the smallest support values and fits again.
Without weights an outlier has the largest support value and stays longest; with robust weights it has the smallest and
is removed first.

On the rows S that are left, each step solves the weighted machine of [Suykens2002]_ eq. (10), without weights all
:math:`v_i = 1`, and drops the rows with the smallest :math:`|\alpha_i|`:

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{i \in S} v_i e_i^2
    \quad \text{s.t.} \quad y_i = w^T \varphi(x_i) + b + e_i, \; i \in S
    \qquad \Longrightarrow \qquad \alpha_i = \gamma v_i e_i
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMClassifier, LSSVMRegressor, PrunedLSSVMClassifier, PrunedLSSVMRegressor
from problems.displays import SupportVectorsDisplay
from substrate.datasets import ripley, sinc_outliers
from substrate.kernels import RBF

data = sinc_outliers(300, random_state=0)
X, y = data.data, data.target
points = np.linspace(-5.0, 5.0, 400)[:, None]

for robust in (None, "hampel"):
    path = PrunedLSSVMRegressor(RBF(1.0), 10.0, robust=robust, n_support=20).fit(X, y).pruning_path_
    n_left = {step.size: int(np.isin(data.outliers, step.rows).sum()) for step in path}
    few = ", ".join(f"{n_left[size]} of 3 at {size} rows" for size in list(n_left)[:2] + list(n_left)[-1:])
    print(f"outliers, robust weights {robust}: {few}")

model = PrunedLSSVMRegressor(RBF(1.0), 10.0, robust="hampel", cv="loo").fit(X, y)
print("\nrows    index  largest and smallest support value   distance from the truth")
for number in range(0, len(model.pruning_path_), 4):
    step = model.pruning_path_[number]
    taken = LSSVMRegressor(RBF(1.0), 10.0, robust="hampel").fit(X[step.rows], y[step.rows])
    error = np.sqrt(np.mean((taken.predict(points) - np.sinc(points[:, 0])) ** 2))
    print(f"{step.size:4d} {step.score:8.4f}  {step.spectrum[0]:8.3f} {step.spectrum[-1]:10.1e} {error:30.3f}")
print(f"chosen: {model.support_.size} rows")

X, labels = ripley()
classifier = PrunedLSSVMClassifier(RBF(0.5), 1.0, step=1, cv="loo").fit(X, labels)
whole = LSSVMClassifier(RBF(0.5), 1.0).fit(X, labels)
test = ripley(subset="test")
print(
    f"\nRipley: {X.shape[0]} rows, test accuracy {whole.score(*test):.3f}; "
    f"{classifier.support_.size} rows, {classifier.score(*test):.3f}\n"
)
print(classifier.certificate_)

# %%
# The rows that remain of Ripley's data are ringed.
display = SupportVectorsDisplay.from_estimator(classifier, X, labels, names=["x1 (no unit)", "x2 (no unit)"])
display.ax_.set_title(f"All but {classifier.support_.size} of {labels.size}: those far from the line")
plt.show()
