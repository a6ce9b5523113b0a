"""Certified fits and predictions against kernel ridge regression, and fits on a basis against Nystroem features."""

from collections.abc import Iterator
from functools import partial

from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVR

from benchmarks.data import regression_data
from benchmarks.measure import Row, certified, compare
from problems import LSSVMRegressor
from substrate.basis import Basis
from substrate.kernels import RBF

__all__ = ["rows"]

KERNEL, GAMMA = RBF(10.0**0.5), 2.0
#: N, and the least ratio to KernelRidge.
DENSE = {500: 1.0, 2000: 1.4, 5000: 1.2}
#: Rows, basis vectors and the least ratio to Nystroem and Ridge.
ON_BASIS = ((20_000, 200, 1.3), (100_000, 500, 1.8))
VECTORS, NEW_ROWS = 500, 100_000


def ridge() -> KernelRidge:
    """Return the same kernel and the same ridge 1/gamma; it has no bias and no certificate to compute."""
    return KernelRidge(kernel="rbf", gamma=0.1, alpha=1.0 / GAMMA)


def rows() -> Iterator[Row]:
    """Yield dense fits, fits on a basis, and predictions."""
    machine = LSSVMRegressor(KERNEL, GAMMA)
    for n, least in DENSE.items():
        X, y = regression_data(n)
        fit = lambda X=X, y=y: certified(machine.fit(X, y))  # noqa: E731
        yield compare(f"dense fit, N = {n}", fit, "KernelRidge", partial(ridge().fit, X, y), least=least)
    for n, vectors, least in ON_BASIS:
        X, y = regression_data(n)
        sparse = LSSVMRegressor(KERNEL, GAMMA, basis=Basis(vectors, rule="random", random_state=0))
        peer = make_pipeline(Nystroem(gamma=0.1, n_components=vectors, random_state=0), Ridge(alpha=1.0 / GAMMA))
        fit = lambda X=X, y=y, sparse=sparse: certified(sparse.fit(X, y))  # noqa: E731
        yield compare(f"basis, {n:,} x {vectors}", fit, "Nystroem + Ridge", partial(peer.fit, X, y), least=least)
    X, y = regression_data(VECTORS)
    new = regression_data(NEW_ROWS, seed=1)[0]
    ours = partial(machine.fit(X, y).predict, new)
    # without a tube every training point is a support vector
    vectors_of = SVR(kernel="rbf", gamma=0.1, C=1.0, epsilon=0.0).fit(X, y)
    work = f"predict {NEW_ROWS:,} x {VECTORS}"
    yield compare(work, ours, "KernelRidge", partial(ridge().fit(X, y).predict, new), least=1.3)
    yield compare(work, ours, "SVR", partial(vectors_of.predict, new), least=4.0)
