"""Other packages for the same problems: ours and theirs at the same accuracy, where they are installed.

``pip install ".[bench]"`` installs them; a package that is not there has a row that says so.
"""

import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import cvxpy as cp
import numpy as np

from benchmarks.composed_machines import CASES, WEIGHT, WIDTH
from benchmarks.composed_machines import KERNEL as COMPOSED
from benchmarks.composed_machines import ours as machine_of
from benchmarks.data import regression_data
from benchmarks.measure import time_interleaved
from benchmarks.regression_fit import GAMMA, KERNEL
from benchmarks.table import Table
from problems import LSSVMRegressor, LSSVMRegressorCV
from substrate.arrays import Array
from substrate.penalized.l1.active_set import solve_l1, zeta_max

__all__ = ["run"]

#: Rows of a fit, of a search, of an L1 machine and of a composed one; and rounds.
FULL, QUICK = (2000, 1000, 1000, 1000, 3), (500, 300, 300, 200, 1)
#: zeta as a share of the smallest one that leaves no support values.
SHARE = 0.1
HEADINGS = ("work", "N", "peer", "ours, s", "peer, s", "peer / ours", "how near the answers are")
Row = tuple[str, ...]


def _find_version(package: str) -> str:
    """Return its version, or nothing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _row(work: str, n: int, package: str, measured: Callable[[], tuple[float, float, str]], what: str = "") -> Row:
    version = _find_version(package)
    name = " ".join(filter(None, (package, what, version)))
    if not version:
        return work, str(n), name, "", "", "", "not installed"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other packages
        our_seconds, peer_seconds, near = measured()
    return work, str(n), name, f"{our_seconds:.3f}", f"{peer_seconds:.3f}", f"{peer_seconds / our_seconds:.2f}", near


def _turns(machine: Callable[[], object], peer: Callable[[], object], repeats: int) -> tuple[float, float]:
    t = time_interleaved({"ours": machine, "peer": peer}, repeats)
    return t["ours"], t["peer"]


def _write_distance(first: Array, second: Array) -> str:
    """Return the root mean square of a difference, in deviations."""
    return f"predictions {np.sqrt(np.mean((first - second) ** 2)) / np.std(first):.0e} apart"


def _ridge(X: Array, y: Array) -> Array:
    """Fitted values of kernel ridge regression without bias, which the peers fit: the same system less its border."""
    K = KERNEL(X)
    return np.asarray(K @ np.linalg.solve(K + np.eye(y.size) / GAMMA, y))


def himalaya_fit(X: Array, y: Array, repeats: int, backend: str) -> tuple[float, float, str]:
    from himalaya.backend import set_backend
    from himalaya.kernel_ridge import KernelRidge

    library = set_backend(backend)
    to = library.asarray
    A, b = to(X, dtype="float64"), to(y, dtype="float64")

    def fit() -> Any:
        return KernelRidge(alpha=1.0 / GAMMA, kernel="rbf", kernel_params={"gamma": 0.1}, solver="eigenvalues").fit(
            A, b
        )

    near = _write_distance(_ridge(X, y), np.asarray(library.to_numpy(fit().predict(A))))
    times = _turns(partial(LSSVMRegressor(KERNEL, GAMMA).fit, X, y), fit, repeats)
    set_backend("numpy")
    return *times, f"{near} from its own exact solution"


def gpytorch_fit(X: Array, y: Array, repeats: int, exact: bool) -> tuple[float, float, str]:
    import gpytorch
    import torch

    A, b = torch.as_tensor(X), torch.as_tensor(y)

    class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, likelihood: Any) -> None:
            super().__init__(A, b, likelihood)
            self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), gpytorch.kernels.RBFKernel()

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def fit() -> Any:
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        model = Process(likelihood).double().eval()
        likelihood.eval()
        # exp(-d^2 / (2 l^2)) with l^2 = sigma^2 / 2, and the noise in the place of 1 / gamma
        model.covar_module.lengthscale, likelihood.noise = (float(KERNEL.sigma) ** 2 / 2.0) ** 0.5, 1.0 / GAMMA
        settings = gpytorch.settings
        size = settings.max_cholesky_size(10**6 if exact else 100)
        means_only = settings.skip_posterior_variances(True)  # ours computes no variances either
        with torch.no_grad(), size, means_only, settings.eval_cg_tolerance(1e-6), settings.max_cg_iterations(1000):
            return model(A).mean.numpy()

    near = _write_distance(_ridge(X, y), fit())
    times = _turns(lambda: LSSVMRegressor(KERNEL, GAMMA).fit(X, y).predict(X), fit, repeats)
    return *times, f"{near} from its own exact solution; with predictions of all rows"


def neo_search(X: Array, y: Array, repeats: int) -> tuple[float, float, str]:
    from neo_ls_svm import NeoLSSVM

    half = y.size // 2
    machine, peer = LSSVMRegressorCV("rbf"), NeoLSSVM()
    times = _turns(partial(machine.fit, X[:half], y[:half]), partial(peer.fit, X[:half], y[:half]), repeats)
    errors = [float(np.sqrt(np.mean((np.ravel(m.predict(X[half:])) - y[half:]) ** 2))) for m in (machine, peer)]
    return *times, f"test error {errors[0]:.3f} and {errors[1]:.3f}; each with its own kernel and choice of gamma"


def l1_solve(X: Array, y: Array, repeats: int, package: str) -> tuple[float, float, str]:
    if package == "celer":
        from celer import Lasso
    else:
        from skglm import Lasso
    K = KERNEL(X)
    zeta = SHARE * zeta_max(K, y)
    peer = Lasso(alpha=zeta / y.size, tol=1e-8, max_iter=1000)
    solution = solve_l1(K, y, zeta)
    times = _turns(partial(solve_l1, K, y, zeta), partial(peer.fit, K, y), repeats)

    def cost(a: Array, b: float) -> float:
        return float(0.5 * np.sum((y - K @ a - b) ** 2) + zeta * np.abs(a).sum())

    above = (
        cost(solution.coefficients, solution.bias) / cost(np.ravel(peer.coef_), float(np.ravel(peer.intercept_)[0]))
        - 1.0
    )
    return *times, f"our objective {above:+.0e}; it has no equality 1'a = 0"


def libsvm_solve(n: int, repeats: int, tolerance: float) -> tuple[float, float, str]:
    from sklearn.svm import SVR

    make, loss, monotone = CASES["epsilon-insensitive"]
    X, y = make(n)
    K = COMPOSED(X)

    def ours() -> Any:
        weight = cp.Parameter(nonneg=True, name="weight")
        return machine_of(X, y, loss, monotone, weight).solve(weight=WEIGHT)

    peer = SVR(C=WEIGHT, epsilon=WIDTH, gamma=1.0 / float(COMPOSED.sigma) ** 2, tol=tolerance)
    solved = ours()
    times = _turns(ours, partial(peer.fit, X, y), repeats)
    a = np.zeros(n)
    a[peer.support_] = peer.dual_coef_[0]
    errors = np.abs(y - K @ a - float(peer.intercept_[0]))
    cost = 0.5 * float(a @ K @ a) + WEIGHT * float(np.maximum(errors - WIDTH, 0.0).sum())
    return *times, f"its objective {cost / solved.objective - 1.0:+.0e}; tol={tolerance:g}"


def run(quick: bool) -> Table:
    n_fit, n_search, n_l1, n_composed, repeats = QUICK if quick else FULL
    fit, search, l1 = regression_data(n_fit), regression_data(2 * n_search), regression_data(n_l1)
    rows = [
        _row("fit", n_fit, "himalaya", partial(himalaya_fit, *fit, repeats, "numpy"), "numpy"),
        _row("fit", n_fit, "himalaya", partial(himalaya_fit, *fit, repeats, "torch"), "torch"),
        _row("fit", n_fit, "gpytorch", partial(gpytorch_fit, *fit, repeats, True), "Cholesky"),
        _row("fit", n_fit, "gpytorch", partial(gpytorch_fit, *fit, repeats, False), "conjugate gradients"),
        _row("search", n_search, "neo-ls-svm", partial(neo_search, *search, repeats)),
        _row("L1", n_l1, "celer", partial(l1_solve, *l1, repeats, "celer")),
        _row("L1", n_l1, "skglm", partial(l1_solve, *l1, repeats, "skglm")),
    ]
    rows += [
        _row(
            "epsilon-insensitive", n_composed, "scikit-learn", partial(libsvm_solve, n_composed, repeats, tol), "libsvm"
        )
        for tol in (1e-3, 1e-6)
    ]
    return Table(
        "Other packages",
        "Certificates included in ours, which no other has: fitted values within 1e-6 of the spread of y, proved. "
        "himalaya and GPyTorch fit kernel ridge regression without bias, the same kernel and ridge as "
        f"`LSSVMRegressor(RBF(sqrt(10)), gamma={GAMMA:g})`; the L1 machines have the same columns and {SHARE:g} of "
        "zeta_max; the epsilon-insensitive machine is the same problem. How near the answers are is stated, root mean "
        "square in deviations. Median CPU seconds on one thread.",
        HEADINGS,
        tuple(rows),
    )
