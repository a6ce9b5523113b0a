r"""Additive function: four inputs matter, twenty-one do not.

.. math::

   y_i = 10 \sin(x_i^1) + 20 (x_i^2 - 0.5)^2 + 10 x_i^3 + 5 x_i^4 + e_i, \qquad
   x_i \sim \mathcal U[0, 1]^{25}, \quad e_i \sim \mathcal N(0, 1),

equation (31) of [Pelckmans2005], there taken from [Vapnik1998]. A method that detects structure
should keep the first four components and drop the others.
"""

from typing import TYPE_CHECKING, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from substrate.datasets.arguments import RandomState, check_count, check_real, random_source
from substrate.datasets.bunch import Record, deliver
from substrate.datasets.citations import cite

if TYPE_CHECKING:
    from sklearn.utils import Bunch

__all__ = ["additive_function"]

Arrays: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]


@overload
def additive_function(
    n_samples: int = 100, n_features: int = 25, noise: float = 1.0, *,
    random_state: RandomState = None, return_X_y: Literal[True] = True,
) -> Arrays: ...  # fmt: skip
@overload
def additive_function(
    n_samples: int = 100, n_features: int = 25, noise: float = 1.0, *,
    random_state: RandomState = None, return_X_y: Literal[False],
) -> "Bunch": ...  # fmt: skip
def additive_function(
    n_samples: int = 100,
    n_features: int = 25,
    noise: float = 1.0,
    *,
    random_state: RandomState = None,
    return_X_y: bool = True,
) -> "Arrays | Bunch":
    """Draw the additive function (31) of [Pelckmans2005], with noise and with inputs of no effect.

    :equation [Pelckmans2005]_ (31): the additive test function

    Parameters
    ----------
    n_samples
        Number of rows.
    n_features
        Number of inputs, at least the four that matter.
    noise
        Standard deviation of the Gaussian noise. It is drawn after the inputs and also at level
        zero, so that one seed gives the same inputs at every level.
    random_state
        None, a non-negative integer, a numpy Generator or a numpy RandomState.
    return_X_y
        True for ``(X, y)`` of shapes (n_samples, n_features) and (n_samples,); False for a
        ``sklearn.utils.Bunch``, which also holds ``noiseless``, the values before noise.
    """
    rows = check_count("n_samples", n_samples, least=1, usual=100)
    columns = check_count("n_features", n_features, least=4, usual=25)
    scale = check_real("noise", noise, least=0.0, usual=1.0)
    source = random_source(random_state)
    X = source.uniform(size=(rows, columns))
    noiseless = 10 * np.sin(X[:, 0]) + 20 * (X[:, 1] - 0.5) ** 2 + 10 * X[:, 2] + 5 * X[:, 3]
    record = Record(
        X=X,
        y=noiseless + scale * source.standard_normal(rows),
        feature_names=tuple(f"X{column}" for column in range(1, columns + 1)),
        target_name="y",
        description=additive_function.__doc__,
        citation=cite("Pelckmans2005", "Vapnik1998"),
        extras={"noiseless": noiseless},
    )
    return deliver(record, return_X_y)
