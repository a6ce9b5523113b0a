r"""How do I bound a fairness gap: the difference between the mean predictions of two groups?
=========================================================================================

Two groups differ in their inputs, and past decisions also paid one of them a bonus. The bound is one constraint; its
multiplier is the marginal price of fairness. The tighter the bound, the larger the error, and the price of tightening
it further.

With the two groups A and B, the machine is

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + 5 \sum_{i=1}^N e_i^2 \quad \text{s.t.} \quad
    \begin{cases} y_i = w^T \varphi(x_i) + b + e_i, \quad i = 1, \dots, N, \\
    \Big| \dfrac{1}{|A|} \displaystyle\sum_{i \in A} f(x_i) - \dfrac{1}{|B|} \sum_{i \in B} f(x_i) \Big|
    \le \varepsilon \end{cases}
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import Machine, Substrate
from substrate.kernels import RBF

rng = np.random.default_rng(0)
group = rng.integers(0, 2, size=150).astype(bool)
merit = rng.normal(size=150) + 0.3 * group
proxy = group + 0.3 * rng.normal(size=150)  # an input that reveals the group
X = np.column_stack([merit, proxy])
y = np.tanh(merit) + 0.5 * group + 0.1 * rng.normal(size=150)

s = Substrate(RBF(2.0), X, y)
gap = cp.sum(s.f()[group]) / group.sum() - cp.sum(s.f()[~group]) / (~group).sum()
epsilon = cp.Parameter(nonneg=True, name="epsilon")
fair = cp.abs(gap) <= epsilon
fair.set_label("fairness gap")
machine = Machine(s, minimize=0.5 * s.squared_norm + 5.0 * cp.sum_squares(s.e), subject_to=[fair])

print("bound on the gap   gap   root mean square error   price of the bound")
rows = []
for bound in (1.0, 0.4, 0.2, 0.1):
    result = machine.solve(epsilon=bound)
    error = np.sqrt(np.mean(result.e**2))
    rows.append((gap.value, error, float(fair.dual_value)))
    print(f"{bound:16.1f}  {gap.value:4.2f}   {error:22.3f}   {float(fair.dual_value):18.1f}")

print()
print(result.certificate)

# %%
# Every tighter bound costs accuracy; the multiplier is the slope of the cost.
_, ax = plt.subplots()
ax.plot([row[0] for row in rows], [row[1] for row in rows], "o-")
for gap_reached, error, price in rows[1:]:
    ax.annotate(f"price {price:.0f}", (gap_reached, error), xytext=(8, 4), textcoords="offset points")
ax.set(xlabel="gap between the groups (units of y)", ylabel="root mean square error (units of y)")
ax.margins(0.15)
ax.set_title("By one constraint: its multiplier is the price")
plt.show()
