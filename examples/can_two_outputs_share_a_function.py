r"""Can two outputs share a function and keep a separate one each?
==============================================================

Two sites see the same signal, each with a different drift, in different parts of the range. Every output is a sum of
substrates, by name, and the common one is learned from the rows of both. Compare each site with the machine that is
fitted to its rows alone, above all where the site has no rows.

The common function has the weights u and the feature map :math:`\psi`, and site s, which row i belongs to as
:math:`s_i`, has :math:`w_s` and its bias:

.. math::

    \min_{u, w, b, e} \; \tfrac12 u^T u + \tfrac12 \sum_s w_s^T w_s + 5 \sum_{i=1}^N e_i^2
    \quad \text{s.t.} \quad y_i = u^T \psi(x_i) + w_{s_i}^T \varphi(x_i) + b_{s_i} + e_i, \quad i = 1, \dots, N
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

from problems import LSSVMRegressor
from substrate import Machine, Substrate
from substrate.kernels import RBF

rng = np.random.default_rng(0)
X = np.concatenate([rng.uniform(-3.0, 1.0, size=(30, 1)), rng.uniform(-1.0, 3.0, size=(30, 1))])
site = np.repeat(["north", "south"], 30)
drift = {"north": 0.3, "south": -0.3}


def truth(x: np.ndarray, name: str) -> np.ndarray:
    """Return the signal that both sites see, and the drift of one."""
    return np.sin(2.0 * x[:, 0]) + drift[name] * x[:, 0]


y = np.where(site == "north", truth(X, "north"), truth(X, "south")) + 0.2 * rng.normal(size=60)
common = Substrate(RBF(0.7), X, y, bias=False, name="common")
site_functions = {name: Substrate(RBF(3.0), X[site == name], y[site == name], name=f"{name}'s own") for name in drift}

# the common function is a summand of both outputs, so only the others have a bias
errors = [s.e - common.f()[site == name] for name, s in site_functions.items()]
norms = common.squared_norm + sum(s.squared_norm for s in site_functions.values())
result = Machine(
    common,
    *site_functions.values(),
    minimize=0.5 * norms + 5.0 * cp.sum_squares(cp.hstack(errors)),
    predict={name: common + s for name, s in site_functions.items()},
).solve()

new = np.linspace(-3.0, 3.0, 200)[:, None]
curves = {}
for name, values in result.predict(new).items():  # a dict of arrays
    alone = LSSVMRegressor(kernel=RBF(0.7) + RBF(3.0), gamma=10.0).fit(X[site == name], y[site == name])
    curves[name] = values, alone.predict(new)
    error = [np.sqrt(np.mean((f - truth(new, name)) ** 2)) for f in (values, alone.predict(new))]
    print(f"{name}: off by {error[0]:.2f} over the whole range; fitted to its rows alone, by {error[1]:.2f}")

# the same as one linear system: the joint kernel of both sites, and a bias each
ones = (site[:, None] == list(drift)) * 1.0
joint = RBF(0.7)(X) + (ones @ ones.T) * RBF(3.0)(X)
system = np.block([[joint + 0.1 * np.eye(60), ones], [ones.T, np.zeros((2, 2))]])
solved = np.linalg.solve(system, np.append(y, np.zeros(2)))
fitted = np.where(site == "north", *result.predict(X).values())
print(
    f"differs from the joint linear system by {np.abs(fitted - joint @ solved[:60] - ones @ solved[60:]).max():.1e}\n"
)

print(result.certificate)

# %%
# Yes: north has no rows beyond 1, but there it has what south taught the common function.
_, ax = plt.subplots()
ax.plot(X[site == "north"], y[site == "north"], "o", color="0.7", markersize=4, label="rows of north")
ax.plot(new, curves["north"][0], label="north, with the common function")
ax.plot(new, curves["north"][1], label="north, from its rows alone")
ax.plot(new, truth(new, "north"), ":", color="black", label="truth")
ax.set(xlabel="x", ylabel="signal and drift", ylim=(-3.2, 1.9), title="Yes: each site learns from the other's rows")
ax.legend(loc="lower right")
plt.show()
