r"""How do I choose the width of a tube with proof?
===============================================

Errors within the tube of a support vector regression cost nothing. Its width is in the constraints, and not a weight in
the objective; ``fuse`` bounds the validation error, here the mean of absolute errors, for every width in a range all
the same.

With :math:`\xi_i` what an error is beyond the tube of width :math:`\varepsilon`, the machine is

.. math::

    \min_{w, b, e, \xi} \; \tfrac12 w^T w + 3 \sum_{i=1}^N \xi_i \quad \text{s.t.} \quad
    \begin{cases} y_i = w^T \varphi(x_i) + b + e_i, \\
    -\varepsilon - \xi_i \le e_i \le \varepsilon + \xi_i, \quad \xi_i \ge 0, \quad i = 1, \dots, N \end{cases}
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import Machine, Substrate, fuse
from substrate.kernels import RBF

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 6.0, size=(80, 1))
y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=80)

s, eps = Substrate(RBF(1.0), X[:40], y[:40]), cp.Parameter(nonneg=True, name="eps")
beyond = cp.Variable(40)
svr = Machine(
    s,
    minimize=0.5 * s.squared_norm + 3.0 * cp.sum(beyond),
    subject_to=[beyond >= 0.0, s.e <= eps + beyond, -s.e <= eps + beyond],
)

best = fuse(svr, over=eps, validation=(X[40:], y[40:]), gap=0.02, box={"eps": (0.01, 1.0)}, loss="mean_absolute")
print(f"eps = {best.eps:.4g}: mean absolute error {best.validation_error:.5f}")
print(f"no width from 0.01 to 1 is below {best.lower_bound:.5f}\n")
print(best.certificate)

# %%
# The dashed line is proved for all widths in the range, not only for those that were tried.
_, ax = plt.subplots()
best.plot(ax)
ax.set_title(f"No width of the tube is better by more than {best.gap:.1%}")
ax.set_xlabel("width of the tube, eps (units of y)")
plt.show()
