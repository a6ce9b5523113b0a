"""Can a browser or a microcontroller predict?
===========================================

A fitted machine is written as JavaScript, C or ONNX, each with a bound on what rounding changes, and first on fewer
vectors, with a bound on the distance that holds for every input.
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor
from problems.export import compress, to_c, to_javascript
from substrate.datasets import motorcycle
from substrate.kernels import RBF

X, y = motorcycle()
model = LSSVMRegressor(RBF(sigma=6.6), gamma=2.0).fit(X, y)
tolerances = np.geomspace(30.0, 0.03, 10)
machines = [compress(model, tol) for tol in tolerances]
grid = np.linspace(X.min() - 10.0, X.max() + 10.0, 2000)[:, None]
distances = [np.abs(machine.predict(grid) - model.predict(grid)).max() for machine in machines]

small = next(machine for machine in machines if machine.distance <= 1.0)
script, program = to_javascript(small), to_c(small, name="acceleration")
print(f"{small.n_vectors} of {y.size} vectors: {len(script.content)} bytes of JavaScript, {len(program.content)} of C")
print(f"rounding changes {script.bound.loss:.1e} at most, for all inputs in {script.bound.box[0]}")
print()
print(small.certificate_)

# %%
# The distance that is proved, and the largest that was found, by the number of vectors that are left.
counts = [machine.n_vectors for machine in machines]
_, ax = plt.subplots(layout="constrained")
ax.semilogy(counts, [machine.distance for machine in machines], "o-", label="proved for every input")
ax.semilogy(counts, distances, "s--", label="largest at 2000 inputs")
ax.set(xlabel="vectors that are left", ylabel="distance from the machine on all rows (g)")
ax.set_title(f"{small.n_vectors} of {X.shape[0]} vectors are within 1 g everywhere")
ax.legend()
plt.show()
