"""The components of machines whose kernel is a sum over the inputs, without scikit-learn's slow selection of features.

A machine is additive by its kernel: ``kernel=Componentwise(RBF(1.0))``, also together with linear columns.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from substrate.arrays import Array, non_negative
from substrate.errors import DeclarationError
from substrate.kernels import Componentwise, Kernel, Restricted

#: Share of the largest maximal variation up to which an input counts as irrelevant, unless another is given.
RELEVANCE = 0.05

__all__ = [
    "MAXIMAL_VARIATION",
    "RELEVANCE",
    "component_functions",
    "components_of",
    "get_support",
    "has_components",
    "mark_components",
]


def components_of(kernel: Any, n_features: int) -> tuple[Restricted, ...]:
    """Return the components of a sum over the inputs, also of one on some columns; none of any other kernel."""
    if isinstance(kernel, Componentwise):
        return kernel.components(n_features)
    if isinstance(kernel, Restricted) and isinstance(kernel.kernel, Componentwise):
        inside = kernel.kernel.components(len(kernel.columns))
        return tuple(Restricted(part.kernel, tuple(kernel.columns[k] for k in part.columns)) for part in inside)
    return ()


def has_components(model: Any) -> bool:
    """Return whether the machine is additive; raise an AttributeError with a remedy otherwise."""
    kernel: Kernel | str = getattr(model, "kernel_", model.kernel)
    inner = kernel.kernel if isinstance(kernel, Restricted) else kernel
    if not isinstance(inner, Componentwise):
        raise AttributeError(
            f"component functions need a kernel that is a sum over the inputs, such as Componentwise(RBF(1.0)); this "
            f"one is {kernel!r}"
        )
    return True


def component_functions(self: Any, X: Any) -> Array:
    """Return f^l at the rows of X, without bias: of shape (n, n_components), or (n, n_components, n_machines)."""
    return self._component_values(self._new_points(X))


def mark_components(model: Any, relevance: Any) -> NDArray[np.bool_]:
    """Return a mask of the components that vary enough."""
    if isinstance(relevance, (bool, np.bool_)):
        raise DeclarationError("relevance must be a number; pass indices by name: get_support(indices=True)")
    share = non_negative(relevance, "relevance", "as a share of the largest maximal variation")
    variation = np.atleast_2d(model.maximal_variation_).max(axis=0)
    return np.asarray(variation > share * variation.max())


def get_support(self: Any, relevance: float | None = None, indices: bool = False) -> Any:
    """Return the relevant inputs: a mask, or their indices.

    An input is relevant if a component that uses it varies by more than ``relevance`` times the largest maximal
    variation: unless given, the parameter of that name where there is one, otherwise 0.05. Zero leaves out exact zeros
    only, which positive definite kernels with one expansion for all components never have.
    """
    check_is_fitted(self)
    chosen = mark_components(self, getattr(self, "relevance", RELEVANCE) if relevance is None else relevance)
    mask = np.zeros(self.n_features_in_, dtype=bool)
    for columns, is_relevant in zip(self._component_columns(), chosen, strict=True):
        mask[list(columns)] |= is_relevant
    return np.flatnonzero(mask) if indices else mask


def _maximal_variation(self: Any) -> Array:
    """Return the largest size of every component at the rows of the expansion, max_i abs(f^l(x_i)), on request."""
    check_is_fitted(self)
    has_components(self)
    model = self.to_numpy()
    return np.ascontiguousarray(np.abs(model._component_values(model.support_vectors_)).max(axis=0).T)


#: The attribute ``maximal_variation_`` of machines whose kernel may be a sum over the inputs.
MAXIMAL_VARIATION: Any = property(_maximal_variation)
