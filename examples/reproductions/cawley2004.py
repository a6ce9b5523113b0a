"""What a reduced basis spans, and fast leave-one-out on it ([Cawley2004] section 3, eq. (4)-(6), Table 1, Fig. 1-4).

Reconstruction: on the standardised Boston data, the mean relative reconstruction error over the number of basis
vectors, with the printed 4.36 as the width and as its inverse square; on the motorcycle data, time scaled to [0, 1],
the largest difference of the machine on 15 vectors from that on all rows.

Timing: the relative difference of explicit and fast leave-one-out residuals, and their CPU times. Motorcycle with 15
basis vectors, 133 refits; Boston with 200, where ten rows are refitted and the time of all is in proportion. A seed is
a trial.
"""

import time

import numpy as np
from fitting import certified, standardise

from problems import LSSVMRegressor
from substrate.basis import Basis
from substrate.datasets import boston, motorcycle
from substrate.kernels import RBF


def reconstruction(seed):
    """Measure reconstruction errors, and the difference of few vectors from all rows."""
    X, y = boston()
    (X,) = standardise(X)
    numbers = {}
    for name, sigma in {"sigma = 4.36": 4.36, "sigma⁻² = 4.36, as printed": 4.36**-0.5}.items():
        drawn = Basis(n=300, rule="feature_vectors", n_candidates=450, n_scoring=None, random_state=seed)
        order = LSSVMRegressor(RBF(sigma), 57.8, basis=drawn).fit(X, y).basis_indices_
        for size in (10, 20, 40, 70, 100, 150, 200, 250, 300):
            basis = Basis(rule=order[:size], n_scoring=None)
            model = certified(LSSVMRegressor(RBF(sigma), 57.8, basis=basis).fit(X, y))
            numbers[f"{size} vectors, {name}"] = model.reconstruction_error_
    X, y = motorcycle()
    X, kernel, gamma = (X - X.min()) / np.ptp(X), RBF(13.1**-0.5), 2.0 * 1.2055e3
    basis = Basis(15, rule="feature_vectors", n_candidates=100, random_state=seed)
    few = certified(LSSVMRegressor(kernel, gamma, basis=basis).fit(X, y))
    full = certified(LSSVMRegressor(kernel, gamma).fit(X, y))
    points = np.linspace(0.0, 1.0, 400)[:, None]
    difference = np.abs(few.predict(points) - full.predict(points)).max()
    return numbers | {"15 vectors against all rows / range of y": difference / np.ptp(y)}


def on_given_basis(X, y, kernel, gamma, count):
    """Return a machine whose basis is given, so that refits have the same one."""
    basis = LSSVMRegressor(kernel, gamma, basis=count).fit(X, y).support_vectors_
    return certified(LSSVMRegressor(kernel, gamma, basis=basis).fit(X, y))


def refit(model, X, y, tested):
    """Predict some rows by machines fitted without them, on the same basis."""
    again, rows = LSSVMRegressor(model.kernel, model.gamma, basis=model.basis), np.arange(y.size)
    return np.array([again.fit(X[rows != i], y[rows != i]).predict(X[i : i + 1])[0] for i in tested])


def cpu_time(call, times=1):
    """Return the mean CPU seconds of a call, and what it returns; a first call is not counted."""
    call()
    start = time.process_time()
    for _ in range(times):
        result = call()
    return (time.process_time() - start) / times, result


def timing(seed):
    """Measure the two ways to leave every row out."""
    X, y = motorcycle()
    model = on_given_basis(X, y, RBF(10.0), 20.0, 15)
    fast, left_out = cpu_time(lambda: model.leave_one_out(X, y), 10)
    explicit, outputs = cpu_time(lambda: refit(model, X, y, np.arange(y.size)))
    e = y - outputs
    numbers = {"explicit, s": explicit, "fast, s": fast, "explicit / fast": explicit / fast}
    numbers["relative difference (6)"] = np.linalg.norm(e - left_out.residuals) / np.linalg.norm(e)
    X_all, y_all = boston()
    (X_all,) = standardise(X_all)
    for size in (250, 350, 506):
        rows = np.sort(np.random.default_rng(seed).permutation(y_all.size)[:size])
        A, b = X_all[rows], y_all[rows]
        large = on_given_basis(A, b, RBF(4.36), 57.8, 200)
        tested = np.linspace(0, size - 1, 10).astype(int)
        numbers[f"Boston, {size} rows, fast, s"] = cpu_time(lambda m=large, A=A, b=b: m.leave_one_out(A, b))[0]
        seconds, _ = cpu_time(lambda m=large, A=A, b=b, tested=tested: refit(m, A, b, tested))
        numbers[f"Boston, {size} rows, explicit, s"] = seconds * size / 10
    return numbers


STUDIES = {
    "cawley2004-timing": (
        timing,
        5,
        {
            "explicit, s": "0.396950",
            "fast, s": "0.003072",
            "explicit / fast": "129",
            "relative difference (6)": "7.6e-6",
        },
    ),
    "cawley2004-reconstruction": (
        reconstruction,
        10,
        {"200 vectors, sigma = 4.36": "negligible", "15 vectors against all rows / range of y": "identical"},
    ),
}
