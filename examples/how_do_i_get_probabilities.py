r"""How do I get class probabilities from a least-squares machine?
==============================================================

Decision values of left-out rows become probabilities without a refit, compared here with observed frequencies, and sets
of labels with a guaranteed coverage. A classifier is calibrated if, of all points with the probability 0.7, about 70 %
are of the class.

The left-out decision value :math:`s_i` of a row with the label :math:`y_i = \pm 1` has a closed form, with B the block
of the inverse of the bordered system that maps labels to support values, and Platt's sigmoid ([Platt2000]_) turns such
values into probabilities, a and b being fitted to the :math:`s_i`:

.. math::

    s_i = f^{(-i)}(x_i) = y_i - \frac{(B y)_i}{B_{ii}}, \qquad p(s) = \frac{1}{1 + e^{-(a s + b)}}
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import brier_score_loss

from problems import LSSVMClassifier
from substrate.datasets import ripley
from substrate.kernels import RBF

X, y = ripley()
X_test, y_test = ripley(subset="test")

model = LSSVMClassifier(kernel=RBF(sigma=0.5), gamma=1.0).fit(X, y)
probability = model.predict_proba(X_test)[:, 1]

print(f"test accuracy {model.score(X_test, y_test):.3f}, Brier score {brier_score_loss(y_test, probability):.3f}")
print("predicted / observed:")
bins = []
for low in np.arange(0.0, 1.0, 0.2):
    inside = (probability >= low) & (probability < low + 0.2)
    bins.append((probability[inside].mean(), y_test[inside].mean()))
    print(f"  {bins[-1][0]:.2f} / {bins[-1][1]:.2f}  ({inside.sum()} points)")

print()
for coverage in (0.8, 0.9, 0.95):
    label_sets = model.predict_set(X_test, coverage)
    right = label_sets[np.arange(y_test.size), np.searchsorted(model.classes_, y_test)]
    size = label_sets.sum(axis=1).mean()
    print(f"sets of coverage {coverage}: {right.mean():.3f} hold the label, {size:.2f} labels each")
print(f"a set of level 0.9 {model.set_guarantee(0.9)}")

print()
print(model.certificate_)

# %%
# Of the points with a given probability, about that share is of the class.
_, ax = plt.subplots()
ax.axline((0.0, 0.0), slope=1.0, color="0.7", linewidth=1.0, label="perfectly calibrated")
ax.plot(*np.transpose(bins), "o-", label="LS-SVM, 1000 test points")
ax.set(xlabel="predicted probability", ylabel="observed frequency", xlim=(0, 1), ylim=(0, 1))
ax.set_title("predict_proba: close to observed frequencies")
ax.legend()
plt.show()
