"""How do I get class probabilities from a least-squares machine?
==============================================================

Least squares gives scores; scikit-learn's calibration turns them into probabilities, compared here with observed
frequencies.
"""

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import brier_score_loss

from problems import LSSVMClassifier
from substrate.datasets import ripley
from substrate.kernels import RBF

X, y = ripley()
X_test, y_test = ripley(subset="test")

machine = LSSVMClassifier(kernel=RBF(sigma=0.5), gamma=1.0)
calibrated = CalibratedClassifierCV(machine, method="sigmoid", cv=5).fit(X, y)
probability = calibrated.predict_proba(X_test)[:, 1]

print(f"test accuracy {calibrated.score(X_test, y_test):.3f}, Brier score {brier_score_loss(y_test, probability):.3f}")
print("predicted / observed:")
for low in np.arange(0.0, 1.0, 0.2):
    inside = (probability >= low) & (probability < low + 0.2)
    print(f"  {probability[inside].mean():.2f} / {y_test[inside].mean():.2f}  ({inside.sum()} points)")

print()
print(machine.fit(X, y).certificate_)
