r"""How do I fit more rows than fit in memory?
==========================================

Map the file instead of loading it, or give blocks of rows, or a Dask array or dataframe, which reads Parquet and runs
on a cluster. A fit on a reduced basis needs sums over its rows only, so they are read in passes of a few megabytes; the
sums are taken in one fixed order, and the result equals the result of arrays to the last bit.

With :math:`z_i` the kernel values of row i with the 40 vectors of the basis S, the bias eliminated and bars for what is
centred by the mean of all rows, the coefficients solve a system of 40 equations that holds no row:

.. math::

    \Big( \tfrac{1}{\gamma} K_{SS} + \sum_{i=1}^N \bar z_i \bar z_i^T \Big) \beta = \sum_{i=1}^N \bar z_i \bar y_i,
    \qquad f(x) = \sum_{j \in S} \beta_j k(x_j, x) + b
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor
from substrate.basis import Basis
from substrate.kernels import RBF

rng = np.random.default_rng(0)
n = 60_000
with tempfile.TemporaryDirectory() as folder:
    rows, targets = Path(folder) / "X.npy", Path(folder) / "y.npy"
    X = rng.uniform(-3.0, 3.0, size=(n, 2))
    y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.standard_normal(n)
    np.save(rows, X)
    np.save(targets, y)
    mapped = np.load(rows, mmap_mode="r"), np.load(targets, mmap_mode="r")

    settings = {"kernel": RBF(sigma=1.5), "gamma": 10.0, "basis": Basis(40, random_state=0)}
    model = LSSVMRegressor(**settings).fit(*mapped)
    print(f"{model.n_rows_} rows from a file, {model.support_.size} vectors")

    held = LSSVMRegressor(**settings).fit(X, y)
    print("the same bits as from arrays:", np.array_equal(held.support_values_, model.support_values_))

    def read_blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows and targets in blocks, for instance from files."""
        for start in range(0, n, 7000):
            yield X[start : start + 7000], y[start : start + 7000]

    blocks = LSSVMRegressor(**settings).fit(read_blocks)
    print("and as from blocks:", np.array_equal(blocks.support_values_, model.support_values_))

    left_out = model.leave_one_out(*mapped)  # one more pass, no refit
    print(f"left out: root mean square {np.sqrt(left_out.mean_square):.4f}, the noise is 0.3000")

    predicted = model.predict(lambda: (rows for rows, _ in read_blocks()))  # blocks of rows alone
    print(f"predictions: {predicted.size}, mean square error {np.mean((y - predicted) ** 2):.4f}\n")

print(left_out.certificate, end="\n\n")
print(model.certificate_)

# %%
# The function learned from the file, and the vectors that carry it.
side = np.linspace(-3.0, 3.0, 60)
surface = model.predict(np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)).reshape(60, 60)
_, ax = plt.subplots()
plt.colorbar(ax.contourf(side, side, surface, levels=12), label="prediction")
ax.plot(*model.support_vectors_.T, "o", color="white", markeredgecolor="black", markersize=5)
ax.set(xlabel="input 1", ylabel="input 2", title=f"{n:,} rows from a file, kept as {model.support_.size} vectors")
plt.show()
