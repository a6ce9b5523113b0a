r"""Can a machine of my own be an estimator, searched over a grid and saved?
========================================================================

A function that builds a machine from rows and targets is all that ``MachineRegressor`` needs: scikit-learn then clones
it, searches its parameters and puts it into pipelines. Here the width of the kernel and the weight C of a median
regression are searched together, and the result is saved to a file and loaded again.

The machine is kernel quantile regression at the level :math:`q = \tfrac12`:

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + C \sum_{i=1}^N \max\big(q\, e_i, \, (q - 1)\, e_i\big)
    \quad \text{s.t.} \quad y_i = w^T \varphi(x_i) + b + e_i, \quad i = 1, \dots, N
"""

import os
import tempfile

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from problems import MachineRegressor, load
from substrate import Machine, Substrate
from substrate.datasets import motorcycle
from substrate.kernels import RBF


def build(X, y, sigma=5.0, level=0.5):
    """Return the machine of one quantile; C, a parameter of cvxpy, is given when it is solved."""
    s = Substrate(RBF(sigma), X, y)
    C = cp.Parameter(nonneg=True, name="C")
    loss = cp.sum(cp.maximum(level * s.e, (level - 1.0) * s.e))
    return Machine(s, minimize=0.5 * s.squared_norm + C * loss)


# 1. A grid over a parameter of the kernel and one of cvxpy, by folds
X, y = motorcycle()
order = np.random.default_rng(0).permutation(len(y))
grid = {"parameters__sigma": [2.0, 5.0, 10.0], "parameters__C": [1.0, 10.0]}
search = GridSearchCV(
    MachineRegressor(build, {"C": 1.0}), grid, cv=5, scoring="neg_mean_absolute_error", error_score="raise"
).fit(X[order], y[order])
model = search.best_estimator_
print("chosen:", search.best_params_)

# 2. A file holds the expansion and the certificate; the function stays here
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "median.npz")
    model.save(path)
    loaded = load(path)
print("the same predictions:", np.array_equal(loaded.predict(X), model.predict(X)), end="\n\n")
print(loaded.certificate_)

# %%
# Yes: the median of the best machine of the grid.
points = np.linspace(X.min(), X.max(), 300)[:, None]
_, ax = plt.subplots()
ax.plot(X[:, 0], y, "o", color="0.7", markersize=4)
ax.plot(points, loaded.predict(points), color="C0", label="median")
ax.set(xlabel="time, ms", ylabel="acceleration, g", title="A machine of your own is fitted, chosen and saved")
ax.legend()
plt.show()
