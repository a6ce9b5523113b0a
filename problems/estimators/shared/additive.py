"""The common part of additive machines: one kernel per component, component functions, and the choice of inputs."""

from typing import TYPE_CHECKING, Any

from problems.estimators.shared.model import Model
from substrate.arrays import Array, check_memory
from substrate.errors import DeclarationError
from substrate.gram import Gram
from substrate.kernels import Componentwise, Kernel, Restricted

if TYPE_CHECKING:
    pass

__all__ = ["AdditiveModel", "kernel_matrices"]


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


def _names_columns(kernel: Kernel) -> bool:
    """Return whether some part of a kernel uses chosen columns."""
    return isinstance(kernel, (Restricted, Componentwise)) or any(map(_names_columns, kernel.inside))


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
