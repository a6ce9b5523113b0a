r"""How do I prove that a price curve falls everywhere?
===================================================

Demand falls with the price, at every price and not only on a grid. The constraint holds at all points of a box, the
certificate says by how much, and the optimum over all such curves lies between two numbers. The free fit, for
comparison, rises where the noise does.

The box is the range of the observed prices, and with :math:`\gamma = 10` the machine is

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{i=1}^N e_i^2 \quad \text{s.t.} \quad
    \begin{cases} y_i = w^T \varphi(x_i) + b + e_i, \quad i = 1, \dots, N, \\
    f'(x) \le 0, \quad f(x) \ge 0 \quad \text{for all } x \in [\min_i x_i, \max_i x_i] \end{cases}
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor
from substrate.kernels import RBF

rng = np.random.default_rng(3)
price = np.sort(rng.uniform(1.0, 9.0, size=60))
truth = 80.0 / (1.0 + np.exp(1.2 * (price - 5.0))) + 20.0
X, y = price[:, None], truth + 7.0 * rng.normal(size=60)

free = LSSVMRegressor(RBF(1.5), gamma=10.0).fit(X, y)
falling = LSSVMRegressor(RBF(1.5), gamma=10.0, monotone={0: -1}, bounds=(0, None)).fit(X, y)

grid = np.linspace(price.min(), price.max(), 20_001)[:, None]
for name, model in (("free", free), ("falling", falling)):
    steps, error = np.diff(model.predict(grid)), np.sqrt(np.mean((model.predict(X) - truth) ** 2))
    print(f"{name:8s} rises on {np.sum(steps > 0.0):5d} of 20000 steps, distance from the truth {error:.2f}")
print(f"points that carry the constraint: {np.sum(falling.shape_multipliers_ != 0.0)}\n")
print(falling.certificate_)

# %%
# The curve is flat where the data rise, and falls everywhere with proof.
_, ax = plt.subplots()
ax.plot(price, y, "o", color="0.7", markersize=4)
ax.plot(grid, falling.predict(grid), label="falls, proved everywhere")
ax.plot(grid, free.predict(grid), "--", label="free")
ax.plot(price, truth, ":", color="black", linewidth=1.5, label="truth")
ax.set(xlabel="price", ylabel="units sold", title="Demand falls at every price, with proof")
ax.legend()
plt.show()
