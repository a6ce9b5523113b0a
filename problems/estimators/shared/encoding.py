"""The records of models, which their files may name (:mod:`substrate.files`).

Records of the steps of a fit are frozen values, compared by content and written into model files.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, whole_number
from substrate.errors import DeclarationError
from substrate.kernels import Kernel
from substrate.least_squares.error_distribution import ALL_WEIGHTINGS
from substrate.least_squares.robust_weights import SCALES, check_choice
from substrate.values import Record, Value

__all__ = [
    "PruningStep",
    "Reweighting",
    "Robust",
    "read_robust",
]


@dataclass(frozen=True, slots=True, eq=False)
class Reweighting(Record):
    """One weighted fit: its weights, its solution, and the robust scale of its errors for the next weights.

    ``change`` is the largest change of a support value since the previous fit, relative to the largest of them.
    """

    weights: Array
    support_values: Array
    bias: float
    scale: float
    change: float


@dataclass(frozen=True, slots=True, eq=False)
class PruningStep(Record):
    """One machine of a pruning path.

    ``rows`` are the training rows left, with their support values (in the sign of regression, one column per machine
    where there are several); ``score`` is the performance index of this machine, the smaller the better; ``gamma`` and
    ``kernel`` were used in its fit; ``retuned`` states that they were chosen again at this step.
    """

    rows: NDArray[np.intp]
    support_values: Array
    score: float
    gamma: float
    kernel: Kernel
    retuned: bool

    @property
    def size(self) -> int:
        """Return the number of rows left."""
        return int(self.rows.size)

    @property
    def spectrum(self) -> Array:
        """Return the sorted support value spectrum: sizes of the support values, largest first."""
        sizes = np.abs(self.support_values) if self.support_values.ndim == 1 else row_sizes(self.support_values)
        return np.asarray(np.sort(sizes)[::-1])


def row_sizes(support_values: Array) -> Array:
    """Return |alpha_i|, or the Euclidean norm over the machines where there are several."""
    if support_values.shape[1] == 1:
        return np.abs(support_values[:, 0])
    return np.asarray(np.linalg.norm(support_values, axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Robust(Value, Record):
    """The rule by which robust weights are computed.

    Parameters
    ----------
    weighting : {"hampel", "huber", "logistic", "myriad", "density"}, default="hampel"
        How a row's weight falls with its error; see :mod:`substrate.least_squares.robust_weights`. ``"density"`` is
        Hampel's weight with both thresholds from the density of the errors
        (:mod:`substrate.least_squares.error_distribution`), by every fit anew.
    scale : {"iqr", "mad"}, default="iqr"
        The robust scale of the errors: interquartile range or median absolute deviation.
    max_reweightings : int, default=1
        Maximum number of weighted fits after the plain one. The paper has one; more iterate until the support values
        settle to 1e-4 of the largest.
    """

    weighting: str = "hampel"
    scale: str = "iqr"
    max_reweightings: int = 1

    def __post_init__(self) -> None:
        check_choice(self.weighting, ALL_WEIGHTINGS, "weighting")
        check_choice(self.scale, SCALES, "scale")
        whole_number(self.max_reweightings, "max_reweightings")


def read_robust(given: Any) -> Robust:
    """Return how robust weights are made, from a value or the name of a weighting."""
    if isinstance(given, str):
        return Robust(given)
    if not isinstance(given, Robust):
        raise DeclarationError(f"robust must be None, the name of a weighting or a Robust, received {given!r}")
    return given
