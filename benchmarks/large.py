"""Many rows: all of them on two cores, and fits on a GPU against the same matrices in plain torch."""

import os
import resource
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import COLUMNS
from benchmarks.measure import Row, certified, compare
from problems import LSSVMRegressor
from substrate.basis import Basis
from substrate.kernels import RBF

__all__ = ["rows"]

WIDTH, NARROW = 10.0**0.5, 2.0
HOST_ROWS, DENSE, MILLION = 100_000, 40_000, 1_000_000
#: Basis vectors, and rows of the fit on them.
VECTORS, BASIS_ROWS = 1000, 16_000_000
#: Entries of a block of kernel values in plain torch.
BLOCK = 1 << 27


def rows() -> Iterator[Row]:
    """Yield the fit on the host, and those on a GPU where torch finds one."""
    yield from host_rows()
    try:
        import torch
    except ImportError:
        return
    if torch.cuda.is_available():
        yield from device_rows(torch)


def host_rows() -> Iterator[Row]:
    """Yield seconds and memory of a fit of all rows, on all cores."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((HOST_ROWS, COLUMNS))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(HOST_ROWS)
    start = time.perf_counter()
    with threadpool_limits(len(os.sched_getaffinity(0)), user_api="blas"):
        certified(LSSVMRegressor(RBF(WIDTH), gamma=10.0, tol=1e-3).fit(X, y))
    seconds = time.perf_counter() - start
    yield Row(f"all rows, N = {HOST_ROWS:,}", "seconds on two cores", seconds, most=600.0)
    peak = 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield Row(f"all rows, N = {HOST_ROWS:,}", "GB", peak / 1e9, most=2.0)


def device_data(torch: Any, n: int) -> tuple[Any, Any]:
    """Return rows on the device."""
    generator = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(n, COLUMNS, dtype=torch.float64, device="cuda", generator=generator)
    noise = torch.randn(n, dtype=torch.float64, device="cuda", generator=generator)
    return X, torch.sin(X).sum(dim=1) + 0.1 * noise


def kernel_values(X: Any, Z: Any, sigma: float) -> Any:
    """Return exp(-||x - z||^2 / sigma^2) with nothing but the products and passes it takes."""
    left, right = X / sigma, Z / sigma
    out = (2.0 * left) @ right.T
    out -= (right * right).sum(1)[None, :]
    out -= (left * left).sum(1)[:, None]
    return out.clamp_(max=0.0).exp_()


def factor(torch: Any, X: Any) -> Any:
    """Return the Cholesky factor of the kernel matrix in plain torch."""
    K = kernel_values(X, X, WIDTH)
    K.diagonal().add_(0.5)
    return torch.linalg.cholesky(K)


def sum_products(torch: Any, X: Any, Z: Any) -> Any:
    """Return Z'Z of the kernel values of all rows in plain torch."""
    total = torch.zeros(Z.shape[0], Z.shape[0], dtype=torch.float64, device="cuda")
    for block in X.split(BLOCK // Z.shape[0]):
        values = kernel_values(block, Z, NARROW)
        total.addmm_(values.T, values)
    return total


def device_rows(torch: Any) -> Iterator[Row]:
    """Yield fits of data that are on the device."""

    def clock() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    X, y = device_data(torch, DENSE)
    dense = LSSVMRegressor(RBF(WIDTH), gamma=2.0)
    yield compare(
        f"GPU: dense, N = {DENSE:,}",
        lambda: certified(dense.fit(X, y)),
        "kernel matrix + Cholesky in torch",
        lambda: factor(torch, X),
        most=1.15,
        clock=clock,
    )
    many, targets = device_data(torch, BASIS_ROWS)
    sparse = LSSVMRegressor(RBF(NARROW), gamma=2.0, basis=Basis(VECTORS, rule="random", random_state=0))
    yield compare(
        f"GPU: basis, n = {VECTORS}",
        lambda: certified(sparse.fit(many, targets)),
        "kernel values + Z'Z in torch",
        lambda: sum_products(torch, many, many[:VECTORS]),
        most=1.4,
        clock=clock,
    )
    million, targets = device_data(torch, MILLION)
    start = clock()
    certified(LSSVMRegressor(RBF(WIDTH), gamma=10.0, tol=1e-3).fit(million, targets))
    yield Row(f"GPU: all rows, N = {MILLION:,}, to 1e-3", "seconds", clock() - start, most=300.0)
