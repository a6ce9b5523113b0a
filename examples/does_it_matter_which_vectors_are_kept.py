r"""Classification with few vectors: does it matter which are kept?
===============================================================

The four rules of Carvalho and Braga (2006) are compared with a dense machine, a support vector machine, and a control:
as many columns drawn at random. A rule is worth what it adds to chance, so the spread of the random draws is what the
accuracies should be read against.

Once the columns S are chosen, three of the rules fit the machine in the same way, by least squares over all rows of the
bordered system ([Carvalho2006]_ sections 3.3 to 3.5), in which :math:`\omega_{ij} = y_i y_j k(x_i, x_j)`:

.. math::

    \min_{b, \alpha_S} \; \Big\| A_S \begin{bmatrix} b \\ \alpha_S \end{bmatrix} - B \Big\|^2, \qquad
    A = \begin{bmatrix} 0 & y^T \\ y & \omega + I/\gamma \end{bmatrix}, \qquad
    B = \begin{bmatrix} 0 \\ 1 \end{bmatrix}
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from problems import AdaPinvClassifier, ALSSVMClassifier, IPLSSVMClassifier, LS2SVMClassifier, LSSVMClassifier
from problems import column_reduced_ls_svm as reduced
from substrate.conventions import sigma_to
from substrate.datasets import ripley
from substrate.kernels import RBF

X, y = ripley()
X_test, y_test = ripley(subset="test")
kernel, gamma, few = RBF(sigma=0.5), 10.0, 20

models = {
    "SVM (scikit-learn)": SVC(C=gamma, gamma=sigma_to("scikit-learn SVM", kernel.sigma)),
    "LS-SVM, all columns": LSSVMClassifier(kernel, gamma),
    "LS2-SVM": LS2SVMClassifier(kernel, gamma, threshold=0.3),
    "Ada-Pinv": AdaPinvClassifier(kernel, gamma, n_support=few),
    "IP-LSSVM": IPLSSVMClassifier(kernel, gamma, n_support=few),
    "A-LSSVM": ALSSVMClassifier(kernel, gamma, n_support=few, threshold=0.3, max_epochs=5000, random_state=0),
}
for name, model in models.items():
    model.fit(X, y)
    print(f"{name:22s} {model.support_.size:3d} vectors, test accuracy {model.score(X_test, y_test):.3f}")

labels = np.where(y == 1, 1.0, -1.0)


def accuracy(columns):
    """Return the accuracy of the machine on these columns, fitted by least squares over all rows."""
    machine = reduced.closed_form(kernel(X), labels, gamma, columns=columns)
    f = kernel(X_test, X) @ (labels * machine["support_values"]) + machine["bias"]
    return np.mean((f > 0.0) == (y_test == 1))


# In A-LSSVM rows are removed with their columns; the same columns with all rows:
reference_rows = models["A-LSSVM"].support_
print(f"{'... with all rows':22s} {reference_rows.size:3d} vectors, test accuracy {accuracy(reference_rows):.3f}")

# The control: as many columns drawn at random. A rule for choosing them is worth what it adds to this.
draws = [np.random.default_rng(seed).permutation(len(y))[:few] for seed in range(20)]
scores = [accuracy(columns) for columns in draws]
print(
    f"{'random columns':22s} {few:3d} vectors, test accuracy {np.mean(scores):.3f} +- {np.std(scores):.3f} (20 draws)"
)

# the last draw once more, as a convex problem
declared = reduced.declare(kernel(X), labels, gamma, columns=draws[-1]).solve()
print()
print(declared.certificate(against=reduced.closed_form(kernel(X), labels, gamma, columns=draws[-1])))

# %%
# Hardly: no rule is better than chance, and A-LSSVM, which gives up rows as well, is worse.
_, ax = plt.subplots()
ax.axvspan(min(scores), max(scores), color="0.88", label=f"{few} random columns, 20 draws")
names = [f"{name} ({model.support_.size})" for name, model in models.items()]
ax.plot([model.score(X_test, y_test) for model in models.values()], names, "D", markersize=8)
ax.set(xlabel="test accuracy (share of 1000 points)", title="Hardly: no rule beats random columns")
ax.legend()
plt.show()
