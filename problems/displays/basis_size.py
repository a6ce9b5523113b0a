r"""Error against the number of basis vectors, and what the basis leaves of the kernel's feature vectors.

.. math:: \delta_S = 1 - \frac1N \sum_i \frac{k_{Si}^T K_{SS}^{-1} k_{Si}}{k_{ii}}

The first is drawn in [Cawley2002]_ Fig. 1-2 for several ways to choose the basis, the second, the mean relative
reconstruction error, in [Cawley2004]_ Fig. 3. Both are taken as plain arrays.
"""

from collections.abc import Mapping
from typing import Any, Self

from problems.displays.canvas import LEGEND, axes_for, distinct
from substrate.arrays import Array, real_array
from substrate.errors import DataError

__all__ = ["BasisSizeDisplay"]


class BasisSizeDisplay:
    """Curves over the size of a basis.

    Parameters
    ----------
    sizes : array of shape (n_sizes,)
        Numbers of basis vectors.
    errors : dict of str to array of shape (n_sizes,)
        An error for every size, by the name of the method.
    reconstruction_errors : dict of str to array of shape (n_sizes,)
        Mean relative reconstruction errors, by the name of the selection; may be empty.
    error_label : str
        What the errors are, with their unit.

    Attributes
    ----------
    axes_, figure_
        One axes for the errors and, where there are any, one for the reconstruction errors; their figure.
    """

    def __init__(
        self,
        sizes: Array,
        errors: Mapping[str, Array],
        reconstruction_errors: Mapping[str, Array],
        error_label: str = "mean squared error (units of y, squared)",
    ) -> None:
        self.sizes = sizes
        self.errors = errors
        self.reconstruction_errors = reconstruction_errors
        self.error_label = error_label

    @classmethod
    def from_arrays(
        cls,
        sizes: Any,
        errors: Any,
        reconstruction_errors: Any = None,
        *,
        error_label: str = "mean squared error (units of y, squared)",
        ax: Any = None,
    ) -> Self:
        """Draw arrays; ``errors`` and ``reconstruction_errors`` are one array, or several by name."""
        given = real_array(sizes, "sizes", ndim=1)
        drawn = _curves(errors, given, "errors", "error")
        if not drawn:
            raise DataError("errors names no curve; pass one array, or a dictionary of at least one")
        rest = _curves({} if reconstruction_errors is None else reconstruction_errors, given, "reconstruction_errors",
                       "reconstruction")  # fmt: skip
        return cls(given, drawn, rest, error_label).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given, one a panel, or on new ones."""
        panels = 2 if self.reconstruction_errors else 1
        self.figure_, self.axes_ = axes_for(ax, panels, 1, (6.4, 3.4 * panels), sharex=True)
        every = [(self.errors, self.error_label), (self.reconstruction_errors, "relative reconstruction error (share)")]
        for axes, (curves, label) in zip(self.axes_, every, strict=False):
            for (name, values), style in zip(curves.items(), distinct(len(curves)), strict=True):
                axes.plot(self.sizes, values, label=name, **style)
            axes.set_ylabel(label)
            if all((values > 0.0).all() for values in curves.values()) and _decades(curves) > 30.0:
                axes.set_yscale("log")
            axes.legend(**LEGEND)
        self.axes_[-1].set_xlabel("basis vectors (number)")
        return self


def _curves(values: Any, sizes: Array, name: str, single: str) -> dict[str, Array]:
    named = values if isinstance(values, Mapping) else {single: values}
    curves = {str(label): real_array(curve, f"{name}[{label!r}]", ndim=1) for label, curve in named.items()}
    for label, curve in curves.items():
        if curve.size != sizes.size:
            raise DataError(f"{name}[{label!r}] must have one entry per size: {sizes.size}, received {curve.size}")
    return curves


def _decades(curves: Mapping[str, Array]) -> float:
    """How many times the largest value is the smallest."""
    return max(float(v.max()) for v in curves.values()) / min(float(v.min()) for v in curves.values())
