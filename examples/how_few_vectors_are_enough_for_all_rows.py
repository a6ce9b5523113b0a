r"""How few basis vectors are enough, if the errors of all rows count?
==================================================================

Cawley and Talbot (2002, 2004) keep few vectors in the expansion but the errors of all rows in the objective. On the
motorcycle data, where 133 readings share 94 times, about ten vectors have the leave-one-out error of all of them; how
they are chosen hardly matters, but the errors of the rows that are not kept do.

With the basis S, the sum over i runs over all rows here, and over the rows of S only in the conventional sparse machine
of the last column ([Cawley2004]_ eq. (2), whose :math:`\gamma` is half of this one):

.. math::

    \min_{\beta, b, e} \; \tfrac12 \beta^T K_{SS} \beta + \tfrac{\gamma}{2} \sum_{i=1}^N e_i^2
    \quad \text{s.t.} \quad y_i = \sum_{j \in S} \beta_j k(x_i, x_j) + b + e_i
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor, LSSVMRegressorCV
from substrate.basis import Basis
from substrate.datasets import motorcycle
from substrate.kernels import RBF

X, y = motorcycle()
kernel, gamma = RBF(sigma=10.0), 20.0
rules = ("feature_vectors", "pruned", "renyi", "random")

full = LSSVMRegressor(kernel, gamma).fit(X, y)
print(f"all {y.size} rows: root mean square, left out, {np.sqrt(full.leave_one_out().mean_square):.2f}\n")


def root(residuals):
    """Return the root mean square."""
    return np.sqrt(np.mean(np.square(residuals)))


methods, sizes, table = (*rules, "the kept rows only"), (40, 20, 15, 10, 7, 5, 3), []
print("vectors  " + "".join(f"{name:>20}" for name in methods))
for n_basis in sizes:
    errors = []
    for rule in rules:
        seeds = range(5 if rule == "random" else 1)
        models = [
            LSSVMRegressor(kernel, gamma, basis=Basis(n_basis, rule=rule, random_state=seed)).fit(X, y)
            for seed in seeds
        ]
        errors.append(np.mean([root(model.leave_one_out(X, y).residuals) for model in models]))
    kept = LSSVMRegressor(kernel, gamma, basis=n_basis).fit(X, y).basis_indices_
    conventional = LSSVMRegressor(kernel, gamma).fit(X[kept], y[kept])
    other_rows = np.setdiff1d(np.arange(y.size), kept)  # to this machine they are new
    errors.append(root(y[other_rows] - conventional.predict(X[other_rows])))
    table.append(errors)
    print(f"{n_basis:7d}  " + "".join(f"{error:20.2f}" for error in errors))

chosen = LSSVMRegressorCV(kernel, basis=10).fit(X, y)
low, high = np.sqrt([chosen.criterion_lower_bound_, chosen.criterion_])
print(f"\nten vectors, gamma = {chosen.gamma_:.3g} by leave-one-out: {high:.3f}, and no gamma below {low:.3f}\n")
print(chosen.certificate_)

# %%
# The curves with the errors of all rows are flat down to about ten vectors.
plt.plot(sizes, table, "o-", label=methods)
plt.ylim(20.0, 60.0)
plt.title("About ten of 133, if all errors count")
plt.gca().set(xlabel="basis vectors (number)", ylabel="left-out error (g)")
plt.legend()
plt.show()
