"""The computer on which the figures were measured."""

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from threadpoolctl import threadpool_info

from benchmarks import THREAD_SETTINGS

__all__ = ["description"]

PACKAGES = ("lssvm-substrate", "numpy", "scipy", "scikit-learn", "cvxpy")
#: Named where they are installed: the extra [bench], and what makes ours or a peer faster.
OTHERS = ("numba", "torch", "himalaya", "gpytorch", "neo-ls-svm", "celer", "skglm", "pyscipopt", "mapie")


def description() -> tuple[str, ...]:
    """Facts as lines: machine, versions, BLAS, threads."""
    packages = [*PACKAGES, *(package for package in OTHERS if _version(package) != "absent")]
    versions = ", ".join(f"{package} {_version(package)}" for package in packages)
    threads = ", ".join(f"{name}={os.environ.get(name, 'unset')}" for name in THREAD_SETTINGS)
    return (
        f"machine: {platform.system()} {platform.release()}, {platform.machine()}, {_processor()}, "
        f"{os.cpu_count()} cores",
        f"versions: Python {platform.python_version()}, {versions}",
        f"BLAS: {_blas()}",
        f"threads: one ({threads}); all times are CPU times, contenders take turns, medians are given",
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _processor() -> str:
    if shutil.which("lscpu"):
        process = subprocess.run(
            ["lscpu"], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
        )
        for line in process.stdout.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "Model name" and value.strip() not in ("", "-"):
                return value.strip()
    table = Path("/proc/cpuinfo")
    if table.exists():
        for line in table.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def _blas() -> str:
    import numpy as np  # noqa: F401
    import scipy.linalg  # noqa: F401

    libraries = {
        f"{pool['internal_api']} {pool['version']} ({pool.get('architecture', 'unknown')}, "
        f"{pool['num_threads']} thread{'s' if pool['num_threads'] > 1 else ''})"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    return "; ".join(sorted(libraries)) or "unknown"
