"""The same functions and fits under torch, CuPy and the array API's strict implementation, against numpy's."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.data import classification_data, regression_data
from problems import (
    LSSVMClassifier,
    LSSVMRegressor,
    LSSVMRegressorCV,
    SparseLSSVMClassifier,
    SparseLSSVMClassifierCV,
    SparseLSSVMRegressor,
    SparseLSSVMRegressorCV,
)
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial, SinglePrecision
from substrate.namespaces import to_numpy
from substrate.reduced import Basis

__all__ = ["disagreements", "homes"]

KERNELS = (
    RBF(3.0),
    RBF(0.05),
    Laplacian(4.0),
    Matern(3.0, 0.5),
    Matern(3.0),
    Matern(3.0, 2.5),
    Linear(),
    0.5 * RBF(3.0).on(1, 4) + Polynomial(2) * RBF(2.0),
    Componentwise(RBF(1.5)),
)
#: Largest accepted difference, relative to the largest value; in single precision libraries round differently.
CLOSE, SINGLE = 1e-10, 1e-5


def homes() -> dict[str, Callable[[Any], Any]]:
    """Return the libraries and devices to which arrays can be moved."""
    senders: dict[str, Callable[[Any], Any]] = {}
    try:
        import torch

        senders["torch, cpu"] = torch.from_numpy
        if torch.cuda.is_available():
            senders["torch, cuda"] = lambda values: torch.from_numpy(values).cuda()
    except ImportError:
        pass
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount():
            senders["cupy"] = cupy.asarray
    except Exception as error:  # an installation without a device raises errors of many types
        print(f"no cupy: {error!r}")
    return senders


def _fits() -> dict[str, tuple[Any, Any, Any]]:
    X, y = regression_data(600)
    _, labels = classification_data(600, 3)
    Y = np.stack([y, X[:, 3] ** 2], axis=1)
    reduced = {"basis": Basis(80, random_state=0)}
    drawn = {"basis": Basis(80, rule="random", random_state=0)}
    return {
        "LSSVMRegressor": (LSSVMRegressor(RBF(3.0), 5.0), X, y),
        "LSSVMRegressor, median width, two outputs": (LSSVMRegressor(gamma=[5.0, 2.0]), X, Y),
        "LSSVMClassifier": (LSSVMClassifier(RBF(3.0)), X, labels),
        "LSSVMRegressorCV": (LSSVMRegressorCV(RBF(3.0)), X, y),
        "SparseLSSVMRegressor": (SparseLSSVMRegressor(RBF(2.0), 5.0, **drawn), X, y),
        "SparseLSSVMRegressor, feature vectors": (SparseLSSVMRegressor(RBF(3.0), 5.0, **reduced), X, y),
        "SparseLSSVMClassifier": (SparseLSSVMClassifier(RBF(2.0), **reduced), X, labels),
        "SparseLSSVMRegressorCV": (SparseLSSVMRegressorCV(RBF(2.0), **drawn), X, y),
        "SparseLSSVMClassifierCV, folds": (SparseLSSVMClassifierCV(RBF(2.0), cv=5, **reduced), X, labels),
        # the bound of an answer in single precision is wide
        "SinglePrecision": (LSSVMRegressor(SinglePrecision(RBF(3.0)), 5.0, tol=0.2), X, y),
    }


def _leave_rows_out(model: Any, *training: Any) -> Any:
    """Leave-one-out residuals; sparse machines need their training rows again."""
    return to_numpy(model.leave_one_out(*(training if hasattr(model, "n_rows_") else ())).residuals)


def disagreements() -> list[str]:
    """Print every comparison; return what differs."""
    wrong: list[str] = []

    def compare(home: str, name: str, value: Callable[[], Any], reference: Any, close: float) -> None:
        try:
            values = value()
            expected = np.asarray(reference, dtype=np.float64)
            difference = float(np.abs(np.asarray(values, dtype=np.float64) - expected).max() / np.abs(expected).max())
        except Exception as error:  # one library's failure must not hide another's
            difference = float("inf")
            print(f"{home}: {name}: {type(error).__name__}: {error}")
        if not difference <= close:
            wrong.append(f"{home}: {name}: {difference:.1e}")
        print(f"{home}: {name}: {difference:.1e} {'ok' if difference <= close else 'DIFFERS'}", flush=True)

    X, _ = regression_data(300)
    for home, sent in homes().items():
        for kernel in KERNELS:
            compare(home, repr(kernel), lambda k=kernel, s=sent: to_numpy(k(s(X), s(X[:70]))), kernel(X, X[:70]), CLOSE)
            compare(home, f"{kernel!r}, symmetric", lambda k=kernel, s=sent: to_numpy(k(s(X))), kernel(X), CLOSE)
        for name, (model, rows, targets) in _fits().items():
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                reference = model.fit(rows, targets).predict(rows)
                left_out, score = _leave_rows_out(model, rows, targets), model.score(rows, targets)

            def fit(model: Any = model, rows: Any = rows, targets: Any = targets, sent: Any = sent) -> Any:
                model.fit(sent(rows), sent(targets))
                if not model.certificate_.holds:
                    raise AssertionError(f"the certificate does not hold:\n{model.certificate_}")
                return to_numpy(model.predict(sent(rows)))

            close = SINGLE if name == "SinglePrecision" else CLOSE
            compare(home, name, fit, reference, close)  # the model is then fitted there
            sent_data = (sent(rows), sent(targets))
            compare(
                home, f"{name}, left out", lambda m=model, t=sent_data: _leave_rows_out(m, *t), left_out, 100.0 * close
            )
            compare(home, f"{name}, score", lambda m=model, t=sent_data: m.score(*t), score, close)
    print(f"{len(wrong)} differences", *wrong, sep="\n", flush=True)
    return wrong
