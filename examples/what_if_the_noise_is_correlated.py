"""What if the noise is correlated in time?
========================================

Then neighbours carry the error of the row that is left out, and leave-one-out takes the noise for the function. With
the neighbours left out too, by the same formula, it is smoothed.
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressorCV
from substrate.kernels import RBF

rng = np.random.default_rng(1)
n, share = 200, 0.8
hours = np.linspace(0.0, 24.0, n)
truth = 10.0 + 4.0 * np.sin(2.0 * np.pi * hours / 24.0) + np.cos(4.0 * np.pi * hours / 24.0)
errors = np.zeros(n)
for row in range(1, n):
    errors[row] = share * errors[row - 1] + np.sqrt(1.0 - share**2) * rng.normal()
X, y = hours[:, None], truth + errors

models = {}
for cv in ("loo", "blocks"):
    models[cv] = model = LSSVMRegressorCV(kernels=[RBF(width) for width in (0.3, 1.0, 3.0, 6.0, 12.0)], cv=cv).fit(X, y)
    error = np.sqrt(np.mean((model.predict(X) - truth) ** 2))
    print(f"cv={cv!r:9} {model.kernel_!r}, gamma {model.gamma_:.3g}: {error:.2f} degrees from the truth")
print(f"neighbours left out on each side, by the correlation of the errors: {models['blocks'].reach_}")

print()
print(models["blocks"].certificate_)

# %%
# Both curves are the best of all widths and gammas, each by its own criterion.
_, ax = plt.subplots()
ax.plot(hours, y, ".", color="0.7", markersize=4, label="measured")
ax.plot(hours, models["loo"].predict(X), "--", label="leave-one-out")
ax.plot(hours, models["blocks"].predict(X), label="neighbours left out too")
ax.plot(hours, truth, ":", color="black", linewidth=1.5, label="truth")
ax.set(xlabel="hour", ylabel="temperature, degrees", title="Then leave its neighbours out too")
ax.legend()
plt.show()
