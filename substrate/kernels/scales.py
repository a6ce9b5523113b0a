r"""The scales of a kernel, its positive parameters by name, and derivatives in their logarithms.

What a search over the parameters :math:`s` of a kernel needs is the slope of a criterion
:math:`c(\Omega)` of the kernel matrix,

.. math:: \frac{\partial c}{\partial \log s} = \sum_{ij} W_{ij} \, \frac{\partial k(x_i, z_j)}{\partial \log s},
          \qquad W_{ij} = \frac{\partial c}{\partial \Omega_{ij}},

for all of them at once.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np

from substrate.arrays import Array, is_device_array, is_sparse, positive, real_array, real_points
from substrate.errors import DataError, DeclarationError

__all__ = ["Scales"]

#: Parameters that select a formula rather than a scale.
_FIXED = ("center", "degree", "matrix", "mixing", "nu", "p", "q")
#: Rows of a block: small enough for its entries to stay in a core's cache.
_ROWS = 128


class Scales:
    """The scales of a kernel; one that has any defines ``_scale_gradient``."""

    def scales(self) -> dict[str, float]:
        """Return the positive parameters that set a scale, by the names of :meth:`get_params`.

        One width per column gives ``sigma[0]``, ``sigma[1]``, ..., a list of components ``kernel[0]__kernel__sigma``.
        Parameters that are zero, and those that select a formula (``degree``, ``nu``, ``p``, ``q``), are none.
        """
        by_name: dict[str, float] = {}
        self._map_scales(by_name.setdefault, "")
        return by_name

    def with_scales(self, values: Mapping[str, float]) -> Self:
        """Return the same kernel with some of its :meth:`scales` replaced."""
        present = self.scales()
        for name in values:
            if name not in present:
                raise DeclarationError(f"{self!r} has no scale {name!r}; it has {list(present)}")
        checked = {name: positive(value, name) for name, value in values.items()}
        return self._map_scales(lambda name, scale: checked.get(name, scale), "")

    def _map_scales(self, change: Callable[[str, float], float], start: str) -> Self:
        """Return the kernel with every scale changed, a function of its name after ``start`` and of its value."""

        def changed(name: str, value: Any) -> Any:
            if isinstance(value, Scales):
                return value._map_scales(change, f"{name}__")
            if isinstance(value, tuple):
                return tuple(changed(f"{name}[{number}]", entry) for number, entry in enumerate(value))
            if isinstance(value, str) and value in ("median", "each"):
                raise DeclarationError(f"{self!r} depends on data; call kernel.resolved(X) first (estimators do)")
            return change(name, value) if isinstance(value, float) and value > 0.0 else value

        names = [field.name for field in fields(self) if field.name not in _FIXED]  # type: ignore[arg-type]
        new = {name: changed(f"{start}{name}", getattr(self, name)) for name in names}
        is_same = all(value == getattr(self, name) for name, value in new.items())
        return self if is_same else replace(self, **new)  # type: ignore[type-var]

    def scale_gradient(self, X: Any, Z: Any, weights: Any) -> Array:
        """Return the sums of ``weights[i, j]`` times the derivative of k(x_i, z_j) in the logarithm of each scale.

        Parameters
        ----------
        X, Z
            Points, n x d and m x d.
        weights
            One number per pair, n x m; with the same array for X and Z, half of the pairs are evaluated.

        Returns
        -------
        array
            One number per entry of :meth:`scales`, in that order.
        """
        if any(is_device_array(array) for array in (X, Z, weights)):
            raise DeclarationError("derivatives are computed by numpy; pass numpy arrays (X.cpu().numpy(), X.get())")
        left = _dense(X, "X")
        right = left if Z is X else _dense(Z, "Z")
        if left.shape[1] != right.shape[1]:
            raise DataError(f"X has {left.shape[1]} columns and Z has {right.shape[1]}; they must agree")
        W = real_array(weights, "weights", ndim=2)
        if W.shape != (left.shape[0], right.shape[0]):
            raise DataError(
                f"weights must have one number per pair of points, {left.shape[0]} x {right.shape[0]}, "
                f"received shape {W.shape}"
            )
        self.refuse_scale_gradient()
        total = np.zeros(len(self.scales()))
        symmetric = right is left and self.trusted  # of two pairs (i, j) and (j, i), one suffices
        for start in range(0, left.shape[0], _ROWS):
            rows = slice(start, min(start + _ROWS, left.shape[0]))
            if symmetric:
                beyond = np.hstack([W[rows, rows], W[rows, rows.stop :] + W[rows.stop :, rows].T])
                total += self._scale_gradient(left[rows], left[start:], beyond)
            else:
                total += self._scale_gradient(left[rows], right, W[rows])
        return total

    @property
    @abstractmethod
    def trusted(self) -> bool:
        """Whether the kernel's properties, symmetry among them, are known from its formula."""

    def refuse_scale_gradient(self) -> None:
        """Raise with the reason where nothing is known of the scales."""

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the same as :meth:`scale_gradient`, of two checked dense point sets."""
        raise DeclarationError(
            f"{self!r} has no derivatives in its scales: their formula is not known; take a kernel of this package, "
            "give its class a `_scale_gradient`, or search without derivatives"
        )


def _dense(points: Any, name: str) -> Array:
    checked = real_points(points, name)
    return np.asarray(checked.toarray() if is_sparse(checked) else checked)
