"""A dense fit of many rows states what it takes before it begins: a warning, a refusal, and progress.

No test allocates or computes what it is about: warnings are raised as errors, and free memory and time are made up.
"""

import io
import sys
import tracemalloc
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import substrate.arrays
import substrate.progress
from problems import LSSVMClassifier, LSSVMRegressor
from substrate.arrays import memory_limit
from substrate.errors import DataError, LongFitWarning
from substrate.kernels import RBF, Laplacian, Linear
from substrate.progress import LateProgress

MANY = 400_000
X = np.random.default_rng(0).normal(size=(MANY, 1))
Y = np.sin(X[:, 0])


@pytest.fixture
def free_memory(monkeypatch):
    """A function that states how many bytes are free."""

    def state(n_bytes):
        monkeypatch.setattr(substrate.arrays, "available_memory", lambda: n_bytes)

    return state


VALUES: list[int] = []


@dataclass(frozen=True, repr=False)
class CountedRBF(RBF):
    """A kernel that counts the values it was asked for."""

    def evaluate(self, X, Z, dtype):
        VALUES.append(X.shape[0] * Z.shape[0])
        return super().evaluate(X, Z, dtype)


def ends(model, X, y, error):
    """What ended a fit that takes its warnings for errors, its peak of memory, and the kernel values it took."""
    VALUES.clear()
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(error) as caught:
                model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return str(caught.value), peak, sum(VALUES)


@pytest.mark.parametrize("solver", ["auto", "cg", "cholesky"])
@pytest.mark.parametrize("estimator", [LSSVMRegressor, LSSVMClassifier])
def test_hours_are_announced_before_they_begin(estimator, solver, free_memory):
    free_memory(1e13)
    y = Y if estimator is LSSVMRegressor else Y > 0.0
    text, peak, values = ends(estimator(CountedRBF(1.0), solver=solver), X, y, LongFitWarning)
    for part in (f"all {MANY} rows", "hours", "GiB", "reduced basis", f"{estimator.__name__}"):
        assert part in text
    # not a thousandth of the matrix, and far less memory than what is announced
    assert values < 1e-3 * MANY**2
    assert peak < 0.05 * 8.0 * MANY * 1645


@pytest.mark.parametrize("solver", ["auto", "cg", "cholesky"])
def test_what_does_not_fit_is_refused_before_it_is_allocated(solver, free_memory):
    free_memory(2e9)
    model = LSSVMRegressor(CountedRBF(1.0), solver=solver)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LongFitWarning)
        VALUES.clear()
        tracemalloc.start()
        try:
            with pytest.raises(DataError, match=r"needs \d+ bytes .* 2000000000 bytes .* are available.*memory_limit"):
                model.fit(X, Y)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert sum(VALUES) < 1e-3 * MANY**2
    assert peak < 5e8
    # the guard can be lifted, and the fit would then begin
    with memory_limit(float("inf")):
        assert "takes about" in ends(model, X, Y, LongFitWarning)[0]


@pytest.mark.parametrize("kernel", [RBF(1.0), Laplacian(1.0), Linear()])
@pytest.mark.parametrize("solver", ["auto", "cholesky", "cg"])
def test_ordinary_sizes_say_nothing(kernel, solver):
    rng = np.random.default_rng(1)
    points = rng.normal(size=(120, 2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LSSVMRegressor(kernel, solver=solver).fit(points, np.sin(points[:, 0]))
    assert [str(warning.message) for warning in caught] == []
    assert model.certificate_.holds


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_begins_after_ten_seconds(monkeypatch):
    now = [0.0]
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(substrate.progress.time, "monotonic", lambda: now[0])
    progress = LateProgress()
    for second in range(30):
        now[0] = float(second)
        progress.piece(f"iteration {second}")
        assert bool(stream.getvalue()) == (second >= 10)
    assert "iteration 29" in stream.getvalue()
    progress.close()
    assert stream.getvalue().endswith("\r\x1b[K")
    quiet = io.StringIO()
    monkeypatch.setattr(sys, "stderr", quiet)
    late = LateProgress()
    now[0] = 100.0
    late.piece("nothing is written to a pipe")
    assert quiet.getvalue() == ""
