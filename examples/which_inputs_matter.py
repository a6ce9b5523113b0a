r"""Which inputs matter?
====================

The function (31) of Pelckmans, Suykens and De Moor (2005) depends on four of its inputs. Structure detection penalises
the largest value that each component takes at the training points, its maximal variation; the inputs that matter keep
theirs.

In the paper's machine all components share one expansion ([Pelckmans2005]_ eq. (24), here with a bias), with
:math:`\Omega^l` the kernel matrix of input l:

.. math::

    \min_{\alpha, b, e, t} \; \tfrac12 \|e\|_2^2 + \rho \sum_{l=1}^d t_l \quad \text{s.t.} \quad
    \begin{cases} y = \sum_l \Omega^l \alpha + b 1 + e, \quad 1^T \alpha = 0, \\
    -t_l 1 \le \Omega^l \alpha \le t_l 1, \quad l = 1, \dots, d \end{cases}

With exact zeros each component has its own coefficients, and :math:`\tfrac{\tau}{2} \sum_l w_l^T w_l` is added.
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor, MaximalVariationRegressor
from substrate.datasets import additive_function
from substrate.kernels import RBF, Componentwise

X, y = additive_function(n_samples=100, n_features=12, random_state=0)
X_test, y_test = additive_function(n_samples=1000, n_features=12, noise=0.0, random_state=1)


def show(name, model):
    """Return one line: the maximal variations, and the error on noiseless new points."""
    error = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))
    variation = " ".join(f"{t:4.2f}" if t > 0.0 else "   0" for t in model.maximal_variation_)
    print(f"{name:22s} {variation}   test error {error:.2f}")


print("maximal variation of   " + " ".join(f"{'x' + str(k):>4s}" for k in range(1, 13)))
show("all inputs alike", LSSVMRegressor(Componentwise(RBF(1.0)), gamma=10.0).fit(X, y))

# one expansion for all components, as in the paper: the four come first, but an RBF component never vanishes alone,
# so that a threshold must end the list
ranking = MaximalVariationRegressor(RBF(1.0), rho=10.0, relevance=0.1).fit(X, y)
show("ranking", ranking)

# one expansion per component, with a ridge to determine it: the zeros are exact, and no threshold is needed
exact = MaximalVariationRegressor(RBF(1.0), rho=60.0, expansion="decoupled", ridge=0.1, relevance=0.0).fit(X, y)
show("exact zeros", exact)

# the penalty also shrinks what matters; a componentwise LS-SVM on the chosen inputs corrects that
refitted = MaximalVariationRegressor(
    RBF(1.0), rho=60.0, expansion="decoupled", ridge=0.1, relevance=0.0, refit=True, gamma=10.0
).fit(X, y)
show("exact zeros, refitted", refitted)

print(f"\nranking selects inputs     {ranking.get_support(indices=True) + 1}")
print(f"exact zeros select inputs  {exact.get_support(indices=True) + 1}\n")
print(exact.certificate_)

# %%
# Only the first four inputs keep a variation; all others are exactly zero.
_, ax = plt.subplots()
for k, (name, model) in enumerate({"exact zeros": exact, "ranking": ranking}.items()):
    ax.bar(np.arange(1, 13) + 0.4 * k - 0.2, model.maximal_variation_, width=0.38, label=name)
ax.set(xlabel="input", ylabel="maximal variation (units of y)", xticks=range(1, 13))
ax.set_title("Inputs " + ", ".join(map(str, exact.get_support(indices=True) + 1)) + ": the others are exactly zero")
ax.legend()
plt.show()
