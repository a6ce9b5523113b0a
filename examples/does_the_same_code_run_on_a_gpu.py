r"""Does the same code run on a GPU?
================================

Kernels, closed forms and estimators take their library from the arrays they are given. The same lines run on numpy
arrays and on torch tensors, on a GPU where there is one, and give the same machine. One machine has all rows in its
expansion, the other a reduced basis of 60 vectors.

What the device computes is the kernel matrix and one factorisation, which solves the system of the LS-SVM (on a basis,
its counterpart in the kernel values of 60 columns):

.. math::

    \begin{bmatrix} 0 & 1^T \\ 1 & K + I/\gamma \end{bmatrix}
    \begin{bmatrix} b \\ \alpha \end{bmatrix} = \begin{bmatrix} 0 \\ y \end{bmatrix}, \qquad
    f(x) = \sum_{i=1}^N \alpha_i k(x_i, x) + b
"""

from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor, LSSVMRegressorCV
from substrate.arrays import to_numpy, where_it_lives
from substrate.basis import Basis
from substrate.kernels import RBF


def sender():
    """Return a function that moves numpy arrays to the best device of this computer."""
    if find_spec("torch") is not None:
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        return lambda values: torch.as_tensor(values, device=device)
    if find_spec("array_api_strict") is not None:
        import array_api_strict

        return array_api_strict.asarray
    print("neither torch nor array_api_strict is installed; numpy is used twice")
    return np.asarray


rng = np.random.default_rng(0)
X, new = rng.uniform(-3.0, 3.0, size=(600, 2)), rng.uniform(-3.0, 3.0, size=(60, 2))
y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.2 * rng.standard_normal(600)

send = sender()
sent, targets = send(X), send(y)
print("arrays of", where_it_lives(sent))
outputs = {}

for model in (
    LSSVMRegressorCV(RBF(sigma=1.5)),
    LSSVMRegressor(RBF(sigma=1.5), gamma=5.0, basis=Basis(60, random_state=0)),
):
    on_host = model.fit(X, y).predict(new)
    on_device = model.fit(sent, targets).predict(send(new))
    outputs[type(model).__name__] = on_host, to_numpy(on_device)
    left_out = model.leave_one_out() if isinstance(model, LSSVMRegressorCV) else model.leave_one_out(sent, targets)
    print(f"\n{type(model).__name__}: predictions are arrays of {where_it_lives(on_device)}")
    print(f"largest difference from numpy: {np.abs(to_numpy(on_device) - on_host).max():.0e}")
    print(f"left out, root mean square: {np.sqrt(left_out.mean_square):.4f}; the noise is 0.2000")
    print(f"for other machines: model.to_numpy(), or model.save(...): {model.to_numpy().predict(new)[0]:.6f}")

print()
print(model.certificate_)

# %%
# Yes: the outputs lie on the diagonal.
_, ax = plt.subplots()
ax.axline((0.0, 0.0), slope=1.0, color="0.7", linewidth=1.0)
for (name, (on_host, on_device)), mark in zip(outputs.items(), "ox", strict=True):
    ax.plot(on_host, on_device, mark, fillstyle="none", markersize=7, label=name)
ax.set(xlabel="prediction, numpy", ylabel=f"prediction, {where_it_lives(sent)}", title="Yes: the same machine")
ax.legend()
plt.show()
