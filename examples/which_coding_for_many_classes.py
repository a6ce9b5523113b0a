r"""Which coding for many classes: how many machines, and how accurate?
===================================================================

Ten digits are classified by every coding, whose machines share one factorisation, and by one machine for each pair of
digits, with the machines, the time and the accuracy of each. The accuracies hardly differ, so that the number of
machines and the time decide.

Column m of a code book says on which side, :math:`y_{im} = \pm 1`, the class of row i is in machine m. The matrix is
the same for all columns, so that each further machine costs one more right-hand side:

.. math::

    \begin{bmatrix} 0 & 1^T \\ 1 & K + I/\gamma \end{bmatrix}
    \begin{bmatrix} b_1 & \cdots & b_M \\ a_1 & \cdots & a_M \end{bmatrix} =
    \begin{bmatrix} 0 & \cdots & 0 \\ y_1 & \cdots & y_M \end{bmatrix}, \qquad
    f_m(x) = \sum_{i=1}^N a_{im} k(x_i, x) + b_m
"""

import time

import matplotlib.pyplot as plt
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsOneClassifier

from problems import LSSVMClassifier
from substrate.codings import CODINGS
from substrate.kernels import RBF

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, test_size=0.5, random_state=0, stratify=y)

machine = LSSVMClassifier(kernel=RBF(sigma=2.0), gamma=10.0)
models = {coding: clone(machine).set_params(coding=coding) for coding in CODINGS}
scores = {}
for name, model in (models | {"pairs": OneVsOneClassifier(machine)}).items():
    start = time.process_time()
    model.fit(X_train, y_train)
    seconds = time.process_time() - start
    machines = len(model.estimators_) if name == "pairs" else model.support_values_.shape[1]
    scores[f"{name} ({machines})"] = model.score(X_test, y_test)
    print(f"{name:15s} {machines:3d} machines  {seconds:5.2f} s  accuracy {model.score(X_test, y_test):.3f}")

print()
print(models["ecoc"].certificate_)

# %%
# The accuracies hardly differ; the number of machines, in brackets, does.
_, ax = plt.subplots()
ax.plot(list(scores.values()), list(scores), "D", markersize=8)
ax.set(xlabel="test accuracy (share of 899 digits)", xlim=(0.96, 1.0))
ax.set_title("Any: they are nearly as accurate")
plt.show()
