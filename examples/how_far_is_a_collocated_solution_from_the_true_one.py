"""How far is a collocated solution from the true one?
===================================================

The Poisson equation is asked for at 49 points of a square, and the values at 32 points of its edge. Off these points
the power function, times a bound on the norm of the true solution, says how far the machine can be from it.
"""

import matplotlib.pyplot as plt
import numpy as np

from substrate import LinearOperator, Machine, Substrate
from substrate.kernels import Matern

kernel, rng = Matern(0.7, 4.5), np.random.default_rng(1)
# a solution whose norm is known: five bumps of the kernel
centres, heights = rng.uniform(0.0, 1.0, size=(5, 2)), np.array([1.0, -1.5, 1.2, 0.8, -1.0])
R = np.sqrt(heights @ kernel(centres) @ heights)
laplacian = LinearOperator.derivative({0: 2}) + LinearOperator.derivative({1: 2})


def solution(points):
    """Return the true solution."""
    return kernel(points, centres) @ heights


def source(points):
    """Return its Laplacian, the right side of the equation."""
    return sum(kernel.derivative(points, centres, {c: 2}) for c in (0, 1)) @ heights


middles, side, zeros = (np.arange(7) + 0.5) / 7, np.arange(8) / 8, np.zeros(8)
inside = np.stack(np.meshgrid(middles, middles), axis=-1).reshape(-1, 2)
sides = ((side, zeros), (1 + zeros, side), (1 - side, 1 + zeros), (zeros, 1 - side))
edge = np.vstack([np.column_stack(ends) for ends in sides])

s = Substrate(kernel, [edge, inside], [solution(edge), source(inside)], observed=["value", laplacian], bias=False)
result = Machine(s, minimize=s.squared_norm, subject_to=[s.e == 0]).solve()

ticks = np.linspace(0.0, 1.0, 41)
grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
errors = np.abs(result.predict(grid) - solution(grid))
bound = result.power(grid) * np.sqrt(R**2 - result.squared_norm)
print(
    f"largest error {errors.max():.1e}, its bound there {bound[errors.argmax()]:.1e}, largest bound {bound.max():.1e}"
)
print(f"the bound holds at {np.mean(errors <= bound):.0%} of {len(grid)} points\n")
print(result.certificate)

# %%
# The error, which is not known in general, and its bound, which is.
figure, axes = plt.subplots(1, 2, figsize=(8.0, 3.6), layout="constrained", sharey=True)
for axis, values, name in zip(axes, (errors, bound), ("error", "bound"), strict=True):
    picture = axis.contourf(ticks, ticks, values.reshape(41, 41), levels=12, cmap="viridis")
    axis.plot(*inside.T, "w.", markersize=3)
    axis.plot(*edge.T, "ks", markersize=3)
    axis.set(xlabel="first input", title=name, aspect="equal")
    figure.colorbar(picture, ax=axis, format="%.1e")
axes[0].set(ylabel="second input")
figure.suptitle("Between the points the error stays below its bound")
plt.show()
