"""The common part of additive machines: one kernel per component, component functions, and the choice of inputs."""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from problems.estimators.shared.model import Model
from substrate.arrays import Array, check_memory, row_blocks
from substrate.errors import DeclarationError
from substrate.gram import Gram
from substrate.kernels import Componentwise, Kernel, Restricted

if TYPE_CHECKING:
    from substrate.kernels.nodes import Node

__all__ = ["AdditiveModel", "DecoupledModel", "kernel_matrices"]


def kernel_matrices(kernel: Componentwise, X: Any) -> list[Array]:
    """Return the kernel matrices of the components at the points, refused if they do not fit memory."""
    components = kernel.components(X.shape[1])
    n = X.shape[0]
    check_memory(
        3.0 * 8.0 * len(components) * n**2, f"{len(components)} component matrices", "Take fewer rows or fewer inputs."
    )
    matrices = [component(X) for component in components]
    for component, matrix in zip(components, matrices, strict=True):
        if not component.trusted:
            Gram.from_matrix(matrix).check_definite()
    return matrices


def _names_columns(kernel: Any) -> bool:
    """Return whether some part of a kernel uses chosen columns."""
    if isinstance(kernel, (Restricted, Componentwise)):
        return True
    return isinstance(kernel, Kernel) and any(_names_columns(getattr(kernel, field.name)) for field in fields(kernel))


class AdditiveModel(Model):
    """A sum of components, with one expansion for all of them."""

    def component_columns(self) -> tuple[tuple[int, ...], ...]:
        """Return the inputs of each component, of which a refit keeps some."""
        return tuple(part.columns for part in self.own_kernel().components(self.estimator.n_features_in_))

    def own_kernel(self, given: Any = None) -> Componentwise:
        """Return the sum of one kernel per component."""
        kernel = super().own_kernel(given)
        if isinstance(kernel, Componentwise):
            return kernel
        if isinstance(kernel, Restricted):
            return Componentwise([kernel])
        if _names_columns(kernel):
            raise DeclarationError(
                f"{kernel!r} names columns and cannot be the kernel of every input; name the components instead, for "
                "instance Componentwise({0: RBF(1.0), (1, 2): RBF(2.0)})"
            )
        return Componentwise(kernel)


class DecoupledModel(AdditiveModel):
    """An additive machine, perhaps with one expansion per component, then the last axis of the coefficients."""

    @property
    def decoupled(self) -> bool:
        """Whether every component has an expansion of its own."""
        return bool(self.estimator.expansion == "decoupled")

    def outputs(self) -> tuple[int, ...]:
        """Return the shape of one row's prediction."""
        shape: tuple[int, ...] = self.estimator._coefficients().shape[1:]
        return shape[:-1] if self.decoupled else shape

    def component_values(self, X: Any) -> Array:
        """Evaluate every component, of its own expansion where it has one."""
        model = self.estimator
        if not self.decoupled:
            return super().component_values(X)
        alpha = model._coefficients()
        kernel: Any = model.kernel_
        values = np.zeros((X.shape[0], alpha.shape[-1], *alpha.shape[1:-1]))
        for rows in row_blocks(X.shape[0], alpha.shape[0]):
            for number, component in enumerate(kernel.components(X.shape[1])):
                values[rows, number] = component(X[rows], model.support_vectors_) @ alpha[..., number]
        return values

    def evaluate(self, X: Any) -> Array:
        """Return the predictions of rows that were checked."""
        if not self.decoupled:
            return super().evaluate(X)
        return np.asarray(self.component_values(X).sum(axis=1) + self.estimator.bias_)

    def express(self, x: "Sequence[Node]") -> "list[Node]":
        """Return the sum of the expansions of all components."""
        if not self.decoupled:
            return super().express(x)
        from substrate.kernels.nodes import add_outputs, expand_kernel

        model = self.estimator
        alpha = model._coefficients()
        outputs: list[Any] = list(np.broadcast_to(model.bias_, (int(np.prod(self.outputs() or (1,))),)))
        for number, component in enumerate(model.kernel_.components(len(x))):
            coefficients = np.reshape(alpha[..., number], (alpha.shape[0], -1))
            outputs = add_outputs(expand_kernel(component, model.support_vectors_, coefficients, x), outputs)
        return outputs
