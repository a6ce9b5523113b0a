r"""Which inputs matter, by width and by permutation?
=================================================

One width per input, found by the slopes of the evidence, is large where an input has no effect. Permuting an input of
rows left out says what it is worth, without a refit. Both find the same three inputs, whatever their units.

With :math:`s_c` the standard deviation of input c, and :math:`\tilde x_i^{(c)}` the row i with its input c taken from
another row, the kernel, the relevance of an input, and its importance are

.. math::

    k(x, z) = \exp\Big(-\sum_c \frac{(x_c - z_c)^2}{\sigma_c^2}\Big), \qquad
    \text{relevance}_c = \frac{s_c / \sigma_c}{\sum_m s_m / \sigma_m}

.. math::

    I_c = \frac1N \sum_{i=1}^N \big(y_i - f^{(-i)}(\tilde x_i^{(c)})\big)^2
    - \frac1N \sum_{i=1}^N \big(y_i - f^{(-i)}(x_i)\big)^2
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressorCV
from substrate.kernels import RBF

rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, size=(150, 5)) * [1.0, 1e3, 1e-3, 1.0, 1.0]  # inputs in different units
Z = X / [1.0, 1e3, 1e-3, 1.0, 1.0]
y = np.sin(3.0 * Z[:, 0]) + 2.0 * Z[:, 1] * Z[:, 2] + 0.1 * rng.normal(size=150)


def show(name, numbers):
    """Return one line, a number for every input."""
    print(f"{name:36s}" + " ".join(f"{number:7.3f}" for number in numbers))


def relevance(machine):
    """Return the inverse widths in units of the spreads of the inputs, which sum to one."""
    shares = X.std(axis=0) / np.array(machine.kernel_.sigma)
    return shares / shares.sum()


print(f"{'':36s}" + " ".join(f"{'x' + str(k):>7s}" for k in range(1, 6)))
wide = LSSVMRegressorCV(RBF(sigma="each")).fit(X, y)
show("relevance, widths by the spreads", relevance(wide))
model = LSSVMRegressorCV(RBF(sigma="each"), cv="evidence", search="gradient", max_evaluations=60).fit(X, y)
show("relevance, widths by the slopes", relevance(model))
importance = model.left_out_importance(n_repeats=10)
show("importance, increase of the error", importance.importances_mean)
show("  its standard deviation", importance.importances_std)
before = wide.leave_one_out().mean_square
print(f"\nleft-out mean square error {before:.3f}, with widths by the slopes {importance.left_out_score:.3f}\n")
print(model.certificate_)

# %%
# Both measures find the three inputs that have an effect.
names = [f"x{k}" for k in range(1, 6)]
figure, (left, right) = plt.subplots(1, 2, sharey=True, layout="constrained")
left.barh(names, relevance(model), color="0.6")
left.set(xlabel="relevance by widths (share)", ylabel="input")
right.barh(names, importance.importances_mean, xerr=importance.importances_std)
right.set_xlabel("increase of the left-out error")
figure.suptitle("x1, x2 and x3 matter; x4 and x5 do not")
plt.show()
