"""What the options of a model of a table must be: checked before a table is read and scikit-learn is imported."""

from dataclasses import replace
from typing import Any

from substrate.arrays import positive, whole_number
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel, as_kernel

__all__ = ["check_options", "kernel_of"]

_MODELS = ("auto", "stack", "lssvm", "sparse")


def check_options(options: Any) -> None:
    """Refuse numbers out of range and options that a model does not support; ``options`` has them as attributes."""
    for name in ("seconds", "sigma", "gamma"):
        if (value := getattr(options, name)) is not None:
            positive(value, name)
    for name, least in (("n_basis", 1), ("max_evaluations", 0)):
        if (value := getattr(options, name)) is not None:
            whole_number(value, name, least)
    if not 0.0 <= options.validation < 1.0:
        raise DataError(f"validation must be at least 0 and below 1, received {options.validation:g}")
    if options.model not in _MODELS:
        raise DeclarationError(f"model must be one of {', '.join(_MODELS)}, received {options.model!r}")
    if options.model == "stack":
        _check_stack(options)
    kernel_of(options.kernel, options.sigma)


def _check_stack(options: Any) -> None:
    if options.gamma is not None:
        raise DeclarationError("model='stack' chooses gamma; to give one, take model='lssvm'")
    if options.categorical == "kernel":
        raise DeclarationError("categorical='kernel' is for model='lssvm' and 'sparse'; take categorical='one-hot'")
    if options.group is not None or options.time not in (None, False):
        raise DeclarationError("model='stack' chooses by single rows left out; with a group or time take model='lssvm'")
    if options.seconds is not None:
        raise DeclarationError("model='stack' fits all machines; with seconds take model='lssvm'")


def kernel_of(kernel: Any, sigma: float | None) -> Kernel:
    """Return the kernel of a name, with its width where one was given; where none is named, the RBF kernel."""
    named = as_kernel("rbf" if isinstance(kernel, str) and kernel == "families" else kernel)
    if named.pairwise:
        raise DeclarationError("kernel='precomputed' needs a matrix, not a table; take an estimator of problems")
    if sigma is None:
        return named
    if not hasattr(named, "sigma"):
        raise DeclarationError(f"kernel={kernel!r} has no width; leave sigma out, or take rbf, laplacian or matern")
    return replace(named, sigma=sigma)  # type: ignore[call-arg]
