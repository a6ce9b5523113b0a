r"""What else fits at any number of rows?
=====================================

On a reduced basis every squared loss is a sum over the rows. Therefore outliers can be given small weights, the 1-norm
can choose among the basis vectors with its whole path, and inputs that do not matter can be found: arrays here, files
or a cluster by the same call. Least squares goes over rows in passes; the 1-norm and maximal variation hold the kernel
values of all rows with the basis in memory. Each certificate covers all rows.

The machines differ in the weights :math:`v_i` of the rows and in the penalty only, and S has 60 of the rows:

.. math::

    \min_{\beta, b, e} \; \tfrac12 \sum_{i=1}^N v_i e_i^2 + \begin{cases}
    \tfrac{1}{2 \gamma} \beta^T K_{SS} \beta & \text{least squares, robust weights} \\
    \zeta \|\beta\|_1 & \text{1-norm} \\
    \tfrac{\tau}{2} \sum_l \beta^{lT} K^l_{SS} \beta^l + \rho \sum_l \max_i |f^l(x_i)| & \text{maximal variation}
    \end{cases}
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import L1SubstrateRegressor, LSSVMRegressor, MaximalVariationRegressor
from substrate.basis import Basis
from substrate.kernels import RBF

rng = np.random.default_rng(0)
X = rng.uniform(-2.0, 2.0, size=(20_000, 4))  # two of the four inputs matter
truth = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2
y = truth + 0.2 * rng.normal(size=truth.size)
wrong = rng.random(truth.size) < 0.05
y[wrong] += 10.0


def describe_distance(name, model) -> str:
    """Return the distance of a machine from the true function."""
    distances[name] = np.sqrt(np.mean((model.predict(X) - truth) ** 2))
    return f"root mean square distance from the truth {distances[name]:.3f}"


distances: dict[str, float] = {}
common = {"basis": Basis(60, random_state=0)}
plain = LSSVMRegressor(RBF(2.5), gamma=10.0, **common).fit(X, y)
robust = LSSVMRegressor(RBF(2.5), gamma=10.0, robust="hampel", **common).fit(X, y)
print(f"least squares: {describe_distance('least squares', plain)}")
distance = describe_distance("robust weights", robust)
print(f"robust weights: {distance}, scale {robust.scale_:.3f}")
share = (robust.weights_[wrong] < 0.01).mean()
print(f"  wrong targets with a small weight: {share:.0%}")

clean, target = X[~wrong], y[~wrong]
sparse = L1SubstrateRegressor(RBF(2.5), zeta=2.0, **common).fit(clean, target)
print(f"1-norm: {sparse.n_support_} of 60 vectors, {describe_distance('1-norm, clean rows', sparse)}")
for zeta in (2000.0, 20.0):
    fewer = L1SubstrateRegressor(RBF(2.5), zeta=zeta, **common).fit(clean, target)
    print(f"  zeta {zeta:5g}: {fewer.n_support_} vectors")

decoupled = {"expansion": "decoupled", "ridge": 1.0}
structure = MaximalVariationRegressor(RBF(1.0), rho=1000.0, **decoupled, **common).fit(clean, target)
print(f"inputs that matter: {structure.get_support(indices=True)}, bounded at all of {structure.n_rows_} rows")
for model in (robust, sparse, structure):
    print(f"{model.certificate_.title}: {'holds' if model.certificate_.holds else 'DOES NOT HOLD'}")
print(f"\n{structure.certificate_}")

# %%
# Least squares follows the wrong targets; robust weights, also on 20 000 rows, do not.
_, ax = plt.subplots()
ax.bar_label(ax.barh(list(distances), list(distances.values()), color="#b03060"), fmt="%.3f", padding=4)
ax.set(xlabel="distance from the truth (units of y)", xlim=(0.0, 1.2 * max(distances.values())))
ax.set_title("Robust weights, the 1-norm, and structure")
plt.show()
