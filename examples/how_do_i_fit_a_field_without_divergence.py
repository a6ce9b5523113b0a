r"""How do I fit a field without divergence?
========================================

An incompressible flow was measured at a few places, with noise. A kernel of fields without divergence knows what
separate components for every direction do not: its flow between the measurements is nearer to the truth, and has no
sources.

The machine is the same for both kernels, and the second is a matrix of derivatives ([Narcowich1994]_) of the Gaussian
:math:`\phi(r) = \exp(-\|r\|^2 / 2^2)`, whose columns have no divergence:

.. math::

    \min_{w, e} \; 0.01\, w^T w + \sum_{i=1}^N \|e_i\|_2^2 \quad \text{s.t.} \quad y_i = f(x_i) + e_i, \qquad
    k(x, z) = \big( \nabla \nabla^T - I\, \nabla^T \nabla \big) \phi(x - z)
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from substrate import LinearOperator, Machine, Substrate
from substrate.kernels import RBF, DivergenceFree, Separable, component_rows


def flow(points):
    """Return the flow of two vortices: the gradient of a stream function, turned by a right angle."""
    x, y = points.T
    return np.column_stack([-np.sin(x) * np.cos(y) * np.pi / 2, np.cos(x) * np.sin(y) * np.pi / 2])


rng = np.random.default_rng(0)
X = rng.uniform(-2.5, 2.5, size=(24, 2))
Y = flow(X) + 0.1 * rng.normal(size=(24, 2))
ticks = np.linspace(-2.5, 2.5, 15)
grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)


def along(component):
    """Return rows of the same points in the direction of one component."""
    return lambda rows: np.hstack([rows[:, :2], np.tile(np.eye(2)[component], (len(rows), 1))])


divergence = LinearOperator.derivative({0: 1}, at=along(0)) + LinearOperator.derivative({1: 1}, at=along(1))
fits, kernels = {}, {"two functions": Separable(RBF(2.0), np.eye(2)), "no divergence": DivergenceFree(RBF(2.0))}
for name, kernel in kernels.items():
    s = Substrate(kernel, component_rows(X), Y.ravel(), bias=False)  # rows: a point and a direction
    result = Machine(s, minimize=0.01 * s.squared_norm + cp.sum_squares(s.e)).solve()
    found = result.predict(component_rows(grid)).reshape(-1, 2)
    sources = np.abs(result.apply(divergence, component_rows(grid))).max()
    error = np.sqrt(np.mean(np.sum((found - flow(grid)) ** 2, axis=1)))
    fits[name] = (found, error)
    print(f"{name}: error {error:.3f}, largest divergence {sources:.1e}")
print()
print(result.certificate)

# %%
# Both fits of the same measurements; colour and length are the error and the flow.
figure, axes = plt.subplots(1, 2, figsize=(8.4, 4.2), layout="constrained", sharey=True)
for axis, (name, (found, error)) in zip(axes, fits.items(), strict=True):
    off = np.linalg.norm(found - flow(grid), axis=1)
    arrows = axis.quiver(*grid.T, *found.T, off, cmap="viridis", clim=(0.0, 0.6), scale=30.0)
    axis.plot(*X.T, "kx", markersize=4, label="measured")
    axis.set(xlabel="first input", title=f"{name}: error {error:.2f}", aspect="equal")
axes[0].set(ylabel="second input")
axes[0].legend(loc="upper right")
figure.colorbar(arrows, ax=axes, label="distance from the true flow")
figure.suptitle("A field that cannot have sources is nearer to the flow")
plt.show()
