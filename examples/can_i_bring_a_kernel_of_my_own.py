r"""Can I bring a kernel of my own: a matrix, a function, or a kernel object of scikit-learn?
=========================================================================================

Any function that compares two sets of rows can be used. A matrix is passed with ``kernel="precomputed"``, and then rows
need not be vectors: here they are words. Whether it is a kernel is checked, and a warning is issued where it is not.

With :math:`P(a)` the set of pairs of neighbouring letters of a word a, its ends included, the kernel of the words and
the classifier that it carries are

.. math::

    k(a, b) = \frac{|P(a) \cap P(b)|}{\sqrt{|P(a)| \, |P(b)|}}, \qquad
    \hat y(a) = \operatorname{sign} \Big( \sum_{i=1}^N \alpha_i y_i \, k(a_i, a) + b \Big)
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RationalQuadratic

from problems import LSSVMClassifier, LSSVMRegressor
from substrate.datasets import motorcycle

# 1. A matrix: words by the pairs of letters they share, English or Finnish
english = ["house", "water", "stone", "bridge", "winter", "summer", "morning", "street", "garden", "window", "letter"]
finnish = ["talo", "vesi", "kivi", "silta", "talvi", "aamu", "ilta", "katu", "puutarha", "ikkuna", "kirje"]
words, tongue = np.array(english + finnish), np.array(["English"] * 11 + ["Finnish"] * 11)


def share_of_pairs(a, b):
    """Return how many pairs of neighbouring letters two words share, over the root of how many they have."""
    first, second = ({word[i : i + 2] for i in range(len(word) - 1)} for word in (f"^{a}$", f"^{b}$"))
    return len(first & second) / np.sqrt(len(first) * len(second))


def gram(rows, columns):
    """Return the matrix of all comparisons."""
    return np.array([[share_of_pairs(a, b) for b in columns] for a in rows])


model = LSSVMClassifier(kernel="precomputed", gamma=10.0).fit(gram(words, words), tongue)
new = ["forest", "number", "kala", "taivas"]
print("by a matrix:   ", dict(zip(new, model.predict(gram(new, words)).tolist(), strict=True)))

# 2. A function of two sets of rows, and 3. a kernel object of scikit-learn
X, y = motorcycle()
rational = RationalQuadratic(length_scale=5.0, alpha=1.0)
kernels = {"a function": lambda A, B: np.exp(-np.abs(A - B.T) / 20.0), "scikit-learn": rational}
fits = {name: LSSVMRegressor(kernel=kernel, gamma=20.0).fit(X, y) for name, kernel in kernels.items()}
for name, fitted in fits.items():
    print(
        f"by {name + ':':14s} left out {np.sqrt(fitted.leave_one_out().mean_square):.2f} g, "
        f"certified: {fitted.certificate_.holds}"
    )

# 4. What is not a kernel is fitted if possible, with a warning
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    LSSVMRegressor(kernel=lambda A, B: -np.abs(A - B.T), gamma=0.01).fit(X[::5], y[::5])
print(f"minus a distance: {str(caught[0].message)[:75]}...\n")
print(model.certificate_)

# %%
# Yes: the function and the kernel object fit the motorcycle data as any kernel of the package does.
grid = np.linspace(X.min(), X.max(), 300)[:, None]
_, ax = plt.subplots()
ax.plot(X[:, 0], y, "o", color="0.7", markersize=4)
for name, machine in fits.items():
    ax.plot(grid[:, 0], machine.predict(grid), label=f"by {name}")
ax.set(xlabel="time after impact (ms)", ylabel="head acceleration (g)", title="Yes: both kernels fit, certified")
ax.legend()
plt.show()
