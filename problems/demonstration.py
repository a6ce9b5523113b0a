"""The equations and worked cases of a problem file, by which ``substrate verify`` runs it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from substrate import datasets
from substrate.arrays import Array
from substrate.kernels import Componentwise, Kernel

__all__ = [
    "MOST_ROWS",
    "MOST_VALUES",
    "Case",
    "Demonstration",
    "half_validates",
    "kernel_values",
    "own_matrix",
    "training",
]

#: The most rows of a worked case, with those that validate: ``substrate verify`` has every solver solve every one of
#: them, in both forms, and the tests do so again on every version. ``every`` thins a larger data set.
MOST_ROWS = 250
#: The most kernel values of a worked case, over all its components, for the same reason.
MOST_VALUES = 250_000


def kernel_values(kernel: Kernel, X: Any, Z: Any = None) -> Any:
    """Return the kernel matrix of X, or of X against Z; for a componentwise kernel, a list with one per component."""
    if isinstance(kernel, Componentwise):
        return [kernel_values(component, X, Z) for component in kernel.components(X.shape[1])]
    return kernel(X) if Z is None else kernel(X, Z)


def training(kernel: Kernel, X: Array, y: Array) -> dict[str, Any]:
    """Train on all rows: ``K`` and ``y``."""
    return {"K": kernel_values(kernel, X), "y": y}


def half_validates(kernel: Kernel, X: Array, y: Array) -> dict[str, Any]:
    """Hold out every other row: ``K`` and ``y`` of the training rows, ``K_val`` and ``y_val`` of the others."""
    # the larger half validates: section 4.2 warns against more training than validation points
    train, valid = slice(1, None, 2), slice(0, None, 2)
    K, K_val = kernel_values(kernel, X[train]), kernel_values(kernel, X[valid], X[train])
    return {"K": K, "y": y[train], "K_val": K_val, "y_val": y[valid]}


def own_matrix(kernel: Kernel, X: Array, y: Array) -> dict[str, Any]:
    """Return the kernel matrix alone: ``K``."""
    return {"K": kernel(X)}


@dataclass(frozen=True, slots=True)
class Case:
    """One worked case.

    Parameters
    ----------
    label
        What is special about it: a form, a task.
    dataset
        The data set's name in :mod:`substrate.datasets`; where it has two classes they become the labels -1 and +1.
    kernel
        The kernel, with ``"median"`` widths resolved on the data.
    parameters
        The remaining arguments of ``declare``.
    choice
        The arguments of ``declare`` that choose it, for instance ``{"form": "dual"}``.
    every
        Each k-th row only, where the whole set would be slow.
    standardize
        Whether columns are scaled to mean zero and unit variance first.
    build
        How kernel, points and targets become the arguments of ``declare``: :func:`training`, :func:`half_validates`,
        :func:`own_matrix`, or a function of the page where it needs another matrix.
    """

    label: str
    dataset: str
    kernel: Kernel
    parameters: Mapping[str, Any]
    choice: Mapping[str, Any] = field(default_factory=dict)
    every: int = 1
    standardize: bool = False
    build: Callable[[Kernel, Array, Array], Mapping[str, Any]] = training

    @property
    def labels(self) -> bool:
        """Return whether its targets are the labels -1 and +1."""
        return len(getattr(datasets, self.dataset)().target_names) > 1

    def arguments(self, X: Any, y: Any) -> dict[str, Any]:
        """Return the arguments of ``declare`` on points and targets, without ``choice``."""
        if self.labels:
            y = np.where(y == np.unique(y)[-1], 1.0, -1.0)
        if self.standardize:
            deviations = X.std(axis=0)
            X = (X - X.mean(axis=0)) / np.where(deviations > 0.0, deviations, 1.0)
        X, y = X[:: self.every], np.asarray(y[:: self.every], dtype=np.float64)
        return {**self.build(self.kernel.resolved(X), X, y), **self.parameters}

    def arguments_on_data(self) -> dict[str, Any]:
        """Return the arguments of ``declare`` on its data set, without ``choice``."""
        return self.arguments(*getattr(datasets, self.dataset)())


@dataclass(frozen=True, slots=True)
class Demonstration:
    """The equations a problem states, and its worked cases.

    It is the ``DEMONSTRATION`` of a convex page, and the ``EIGENPROBLEM`` of one whose conditions of optimality are an
    eigenproblem: its ``closed_form`` is checked by its ``conditions``, and against the relaxation that it can declare.
    """

    equations: str
    cases: tuple[Case, ...]
