r"""How many clusters are there?
============================

Kernel spectral clustering is an LS-SVM, so it has scores for rows that were not in the fit. How well those lie on
lines, the balanced line fit, says how many clusters there are and which kernel shows them. Two moons and a blob are
three clusters; the criterion is compared for two to five.

For k clusters the machine has k - 1 components ([Alzate2010]_ sections 3 and 4), with D the diagonal matrix of the
degrees :math:`d_i = \sum_j k(x_i, x_j)`, and its conditions of optimality are an eigenproblem:

.. math::

    \min_{w, b, e} \; \tfrac12 \sum_{l=1}^{k-1} w_l^T w_l - \tfrac{1}{2N} \sum_{l=1}^{k-1} \gamma_l\, e_l^T D^{-1} e_l
    \quad \text{s.t.} \quad e_{li} = w_l^T \varphi(x_i) + b_l

.. math::

    D^{-1} M_D K \alpha_l = \lambda_l \alpha_l, \qquad \lambda_l = N / \gamma_l, \qquad
    M_D = I - \frac{1 1^T D^{-1}}{1^T D^{-1} 1}
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs, make_moons
from sklearn.model_selection import GridSearchCV, ShuffleSplit

from problems import KernelSpectralClustering
from substrate.kernels import RBF

moons, _ = make_moons(240, noise=0.06, random_state=0)
blob, _ = make_blobs(120, centers=[[0.5, 2.2]], cluster_std=0.15, random_state=0)
X = np.vstack([moons, blob])

widths, counts = (0.15, 0.3, 0.6, 1.2), [2, 3, 4, 5]
grid = {"kernel": [RBF(width) for width in widths], "n_clusters": counts}
search = GridSearchCV(KernelSpectralClustering(), grid, cv=ShuffleSplit(1, test_size=0.3, random_state=0)).fit(X)
model = search.best_estimator_
print(f"{model.n_clusters_} clusters of sizes {np.bincount(model.labels_).tolist()}, kernel {model.kernel_!r}")
(label,) = model.predict([[0.5, 2.0]])
print(f"balanced line fit {search.best_score_:.3f}; a new row at (0.5, 2.0) is in cluster {label + 1}\n")
print(model.certify(X))

# %%
# The criterion of every kernel and number of clusters, and the clusters that it chooses.
figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained")
criteria = search.cv_results_["mean_test_score"].reshape(4, 4)
for values, width, line in zip(criteria, widths, ("-", "--", "-.", ":"), strict=True):
    axes[0].plot(counts, values, line, marker="o", label=f"width {width:g}")
axes[0].set(xlabel="number of clusters", ylabel="balanced line fit of rows left out", xticks=counts)
axes[0].set_title("The criterion is largest at three clusters")
axes[0].legend()
for label, mark in zip(range(model.n_clusters_), "os^Dv", strict=False):
    axes[1].plot(*X[model.labels_ == label].T, mark, markersize=4, label=f"cluster {label + 1}")
axes[1].set(xlabel="first input", ylabel="second input", title="Clusters by the signs of two components")
axes[1].legend()
plt.show()
