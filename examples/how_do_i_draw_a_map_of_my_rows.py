r"""How do I draw a map of my rows?
===============================

Kernel PCA puts rows that are alike near each other, and a machine from scores back to rows takes the noise from them.
The certificate bounds the distance of the components from the exact ones, and proves that they are the leading ones.
``substrate map table.csv`` draws such a map of any table.

Each component is a direction w with scores :math:`e_i` of large variance ([Suykens2003]_ section III), and with the
centring matrix :math:`P = I - 1 1^T / N` all of them are eigenvectors:

.. math::

    \max_{w, e} \; \tfrac{\gamma}{2} \sum_{i=1}^N e_i^2 - \tfrac12 w^T w
    \quad \text{s.t.} \quad e_i = w^T (\varphi(x_i) - \bar\varphi)
    \qquad \Longrightarrow \qquad P K P \alpha = \lambda \alpha, \quad \lambda = 1/\gamma
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from problems import LSSVMKernelPCA, LSSVMRegressorCV
from problems.displays import ComponentMapDisplay
from substrate.kernels import RBF

digits = load_digits(n_class=5)
X, labels = digits.data / 16.0, digits.target.astype(str)
X, labels, new = X[:500], labels[:500], X[500:506]

model = LSSVMKernelPCA(RBF(4.0), 25).fit(X)
print(f"{100.0 * model.explained_variance_ratio_.sum():.0f} % of the variance in 25 components")

noisy = new + np.random.default_rng(0).normal(scale=0.3, size=new.shape)
pre_images = LSSVMRegressorCV(RBF(), gamma_range=(1e-3, 1e5)).fit(model.transform(X), X)
clean = pre_images.predict(model.transform(noisy))
before, after = np.mean((noisy - new) ** 2), np.mean((clean - new) ** 2)
print(f"mean squared error of new digits: noisy {before:.4f}, denoised {after:.4f}\n")
print(model.certify(X))

# %%
# The first two components of 500 digits, and six new ones with noise and without.
figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.4), layout="constrained")
ComponentMapDisplay.from_estimator(model, X, groups=labels, name="digit", ax=axes[0])
axes[0].set_title("Digits that look alike are neighbours")
framed = [np.pad(rows.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1))) for rows in (new, noisy, clean)]
axes[1].imshow(np.vstack([np.hstack(rows) for rows in framed]), cmap="gray_r", vmin=0.0, vmax=1.0)
axes[1].set(title="New digits: true, noisy, denoised", xlabel="six digits, 8 pixels each", ylabel="pixels")
plt.show()
