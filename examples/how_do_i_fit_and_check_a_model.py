"""How do I fit a model, predict with it, and know that the fit is right?
======================================================================

Five lines give a model and a certificate: each condition of optimality with its residual, its scale and a verdict.
"""

import numpy as np

from problems import LSSVMRegressor
from substrate.datasets import motorcycle
from substrate.kernels import RBF

X, y = motorcycle()
model = LSSVMRegressor(kernel=RBF(sigma=6.6), gamma=2.0).fit(X, y)

for time, acceleration in zip([10.0, 20.0, 30.0], model.predict(np.array([[10.0], [20.0], [30.0]])), strict=True):
    print(f"{time:4.0f} ms after impact: head acceleration {acceleration:7.1f} g")

print(f"\nthe largest of {model.support_values_.size} support values: {np.abs(model.support_values_).max():.1f}\n")
print(model.certificate_)
