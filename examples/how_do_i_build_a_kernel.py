r"""How do I add, multiply, restrict and tune kernels?
==================================================

Kernels are values: add them, scale them, restrict them to columns, and search over their parameters by name. A sum of
kernels is a sum of functions, a product an interaction; and a printed kernel is the formula that it computes.

The first kernel below is a linear trend, one smooth function per input, and one of rooms and lower status together, the
columns 5 and 12 counted from zero:

.. math::

    k(x, z) = 0.1\, x^T z + \sum_{c=0}^{12} \exp\Big(-\frac{(x_c - z_c)^2}{2^2}\Big)
    + \exp\Big(-\frac{(x_5 - z_5)^2 + (x_{12} - z_{12})^2}{2^2}\Big)
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from problems import LSSVMRegressor
from substrate.datasets import boston
from substrate.kernels import RBF, Componentwise, Linear

X, y = boston()

# A linear trend, one smooth function per input, and one interaction of rooms (5) with lower status (12)
kernel = 0.1 * Linear() + Componentwise(RBF(sigma=2.0)) + RBF(sigma=2.0).on(5, 12)
print("kernel:", kernel)

model = make_pipeline(StandardScaler(), LSSVMRegressor(kernel=kernel, gamma=10.0)).fit(X[::2], y[::2])
print(f"R^2 on the other half: {model.score(X[1::2], y[1::2]):.3f}")

# Kernels are frozen, yet a grid search reaches their parameters: the estimator replaces the kernel
search = GridSearchCV(
    make_pipeline(StandardScaler(), LSSVMRegressor(kernel=RBF(sigma=4.0), gamma=60.0)),
    {"lssvmregressor__kernel__sigma": [0.5, 2.0, 4.0, 8.0]},
    cv=5,
).fit(X[::2], y[::2])
print("best width:", search.best_params_, f"R^2 on the other half: {search.score(X[1::2], y[1::2]):.3f}\n")

print(search.best_estimator_[-1].certificate_)

# %%
# Two kernels, their sum and their product, as functions of one point; the other point is 1.
x = np.linspace(-3.0, 3.0, 200)[:, None]
_, ax = plt.subplots()
for composed in (0.5 * Linear() + RBF(1.0), Linear() * RBF(1.0), RBF(1.0), 0.5 * Linear()):
    ax.plot(x, composed(x, np.array([[1.0]])), label=repr(composed))
ax.set(xlabel="x", ylabel="k(x, 1)", title="With + and *: a printed kernel is its formula")
ax.legend()
plt.show()
