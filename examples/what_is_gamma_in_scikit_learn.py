r"""What are gamma and sigma in the terms of scikit-learn, of the papers and of other toolboxes?
============================================================================================

One machine has many notations: what is ``gamma`` here is one over ``alpha`` in scikit-learn, and what is ``gamma``
there is one over the square of our width. This is the same machine in other libraries, with their parameters; the
differences printed are rounding, but for kernel ridge regression without centring, which has no bias and is
another machine.

The problem of the package has a half in both terms and a bias that is not penalised, and its Gaussian kernel has no
half:

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{i=1}^N e_i^2
    \quad \text{s.t.} \quad y_i = w^T \varphi(x_i) + b + e_i, \qquad
    k(x, z) = \exp\big(-\|x - z\|^2 / \sigma^2\big)
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel

from problems import LSSVMRegressor
from substrate import conventions
from substrate.datasets import motorcycle
from substrate.kernels import RBF, Linear

X, y = motorcycle()
sigma, gamma, points = 10.0, 20.0, np.array([[10.0], [20.0], [80.0]])
model = LSSVMRegressor(RBF(sigma), gamma).fit(X, y)

# the kernel: their gamma is one over the square of our sigma
sklearn_gamma = conventions.sigma_to("scikit-learn", sigma)
print(
    f"RBF(sigma={sigma:g}) is rbf_kernel(gamma={sklearn_gamma:g}): "
    f"largest difference {np.abs(rbf_kernel(X, gamma=sklearn_gamma) - RBF(sigma)(X)).max():.0e}"
)

# the machine: their alpha is one over our gamma, but their kernel ridge has no bias; on centred data it has
C = np.eye(y.size) - 1.0 / y.size
K, K_new = RBF(sigma)(X), RBF(sigma)(points, X)
centred = (K_new - K.mean(axis=0)) @ C
alpha = conventions.gamma_to("scikit-learn", gamma)
ridge = KernelRidge(alpha=alpha, kernel="precomputed").fit(C @ K @ C, y - y.mean())
print(
    f"gamma={gamma:g} is alpha={alpha:g} on a centred kernel and target: "
    f"{np.abs(ridge.predict(centred) + y.mean() - model.predict(points)).max():.0e} g apart"
)
raw = KernelRidge(alpha=alpha, kernel="rbf", gamma=sklearn_gamma).fit(X, y)
distance = np.abs(raw.predict(points) - model.predict(points))
near, far = distance[1:3]
print(f"without centring it is another machine: at 20 ms {near:.2f} g apart, far off, at 80 ms, {far:.1f} g")

# the linear kernel is ridge regression, intercept included
line, linear = Ridge(alpha=alpha).fit(X, y), LSSVMRegressor(Linear(), gamma).fit(X, y)
print(
    f"Ridge(alpha={alpha:g}) is the linear kernel: {np.abs(line.predict(points) - linear.predict(points)).max():.0e} g"
)

print("\nour gamma = 20 on these 133 rows, elsewhere:")
for name in ("Suykens2002", "Cawley2004", "Cawley2002", "scikit-learn", "LS-SVMlab"):
    print(f"  {name:13s} {conventions.gamma_to(name, gamma, n=y.size):g}")
print()
print(model.certificate_)

# %%
# The same alpha without the bias: away from the data kernel ridge regression returns to zero.
grid = np.linspace(0.0, 90.0, 300)[:, None]
_, ax = plt.subplots()
ax.plot(X[:, 0], y, "o", color="0.7", markersize=4)
ax.plot(grid, model.predict(grid), label=f"LS-SVM, gamma = {gamma:g}")
ax.plot(grid, raw.predict(grid), label=f"KernelRidge, alpha = {alpha:g}")
ax.axhline(model.bias_, color="0.5", linestyle=":", linewidth=1.0)
ax.set(xlabel="time after impact (ms)", ylabel="head acceleration (g)", title="alpha = 1/gamma, and a bias (dotted)")
ax.legend()
plt.show()
