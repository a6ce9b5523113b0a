r"""How do I fit several quantiles that never cross?
================================================

Quantiles that are fitted one by one may cross, which no quantiles do. Here there is one substrate per quantile, each
with a name, and two constraints that hold everywhere between the data, with proof. The machine predicts each quantile
by its name.

With the levels :math:`q = 0.1, 0.5, 0.9` and the pinball loss ([Koenker1978]_) the machine is

.. math::

    \min_{f_{0.1}, f_{0.5}, f_{0.9}} \; \sum_q \Big( \tfrac12 w_q^T w_q
    + 20 \sum_{i=1}^N \max\big(q\, e^q_i, \, (q - 1)\, e^q_i\big) \Big)
    \quad \text{s.t.} \quad f_{0.1}(x) \le f_{0.5}(x) \le f_{0.9}(x)
    \quad \text{for all } x \in [\min_i x_i, \max_i x_i]

with :math:`f_q(x) = w_q^T \varphi(x) + b_q` and :math:`e^q_i = y_i - f_q(x_i)`.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVR

from substrate import Everywhere, Machine, Substrate
from substrate.datasets import motorcycle
from substrate.kernels import RBF

X, y = motorcycle()
X, y = X[::3] / 10.0, y[::3] / 50.0
grid = np.linspace(X.min(), X.max(), 2_000)[:, None]
levels = {"low": 0.1, "median": 0.5, "high": 0.9}
weight = 20.0


def pinball(errors: cp.Expression, level: float) -> cp.Expression:
    """Return the loss whose minimiser is a quantile of the targets."""
    return cp.sum(cp.maximum(level * errors, (level - 1.0) * errors))


quantiles = [Substrate(RBF(0.8), X, y, name=name) for name in levels]  # separate outputs: a bias each
low, median, high = quantiles
cost = sum(0.5 * s.squared_norm + weight * pinball(s.e, levels[s.name]) for s in quantiles)

free = Machine(*quantiles, minimize=cost).solve()
everywhere = Everywhere()  # the box of the data
order = [median.f(everywhere) - low.f(everywhere) >= 0.0, high.f(everywhere) - median.f(everywhere) >= 0.0]
ordered = Machine(*quantiles, minimize=cost, subject_to=order).solve()

for title, result in (("free", free), ("ordered", ordered)):
    values = result.predict(grid)  # a dict: one array per quantile
    crossed = np.maximum(values["low"] - values["median"], values["median"] - values["high"])
    print(f"{title}: quantiles cross at {np.sum(crossed > 0.0)} of {grid.size} points")

# half the absolute error is the pinball loss at 1/2, so the free median is scikit-learn's machine with no tube
peer = SVR(gamma=1.0 / 0.8**2, C=0.5 * weight, epsilon=0.0, tol=1e-8).fit(X, y)
distance = np.abs(free.predict(grid)["median"] - peer.predict(grid)).max()
print(f"the free median differs from scikit-learn's SVR by {distance:.1e}")
print(f"the order costs {ordered.objective / free.objective - 1.0:.1e} of the objective\n")

print(ordered.certificate)

# %%
# A negative gap is a crossing: the free quantiles have some, the ordered ones none.
_, ax = plt.subplots()
ax.axhline(0.0, color="black", linewidth=1.0)
for title, result in (("ordered", ordered), ("free", free)):
    values = np.array(list(result.predict(grid).values()))
    ax.plot(10.0 * grid, 50.0 * np.diff(values, axis=0).min(axis=0), label=title)
ax.set(xlabel="time after impact (ms)", ylabel="smallest gap of neighbours (g)", ylim=(-6.0, 20.0))
ax.set_title("By two constraints: then no gap is negative anywhere")
ax.legend()
plt.show()
