r"""Noisy sinc: one smooth function under three kinds of error.

.. math::

   y_i = \operatorname{sinc}(x_i) + e_i, \qquad
   \operatorname{sinc}(x) = \frac{\sin \pi x}{\pi x}, \quad \operatorname{sinc}(0) = 1,

with :math:`e_i` Gaussian (:func:`sinc`), Gaussian plus a few large shifts (:func:`sinc_outliers`),
or Student t (:func:`sinc_student`).

The papers state sample sizes and the family of the error. Our choices, where they state nothing: sinc with the factor
pi, inputs drawn uniformly from ``domain`` = [-5, 5] and left unsorted (contiguous folds are then fair), and the size of
noise and outliers. Inputs are drawn first and noise is drawn even at level zero: the same seed gives the same inputs at
every ``noise``, and ``noise=0`` gives the exact function at them.
"""

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from substrate.datasets.bunch import (
    DatasetRecord,
    RandomState,
    check_count,
    check_interval,
    check_real,
    cite,
    deliver,
    random_source,
)

if TYPE_CHECKING:
    from sklearn.utils import Bunch

__all__ = ["sinc", "sinc_outliers", "sinc_student"]

Arrays: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]
Interval: TypeAlias = tuple[float, float]


@overload
def sinc(
    n_samples: int = 100,
    noise: float = 0.1,
    *,
    domain: Interval = (-5.0, 5.0),
    random_state: RandomState = None,
    return_X_y: Literal[True] = True,
) -> Arrays: ...
@overload
def sinc(
    n_samples: int = 100,
    noise: float = 0.1,
    *,
    domain: Interval = (-5.0, 5.0),
    random_state: RandomState = None,
    return_X_y: Literal[False],
) -> "Bunch": ...
def sinc(
    n_samples: int = 100,
    noise: float = 0.1,
    *,
    domain: Interval = (-5.0, 5.0),
    random_state: RandomState = None,
    return_X_y: bool = True,
) -> "Arrays | Bunch":
    """Draw sinc plus Gaussian noise, N = 100 in section 5.1 of [Pelckmans2005].

    Parameters
    ----------
    n_samples
        Number of rows.
    noise
        Standard deviation of the noise. The paper writes N(0, 0.1) and leaves open whether 0.1 is
        the deviation or the variance; we read the deviation, ``noise=0.1 ** 0.5`` is the other
        reading.
    domain
        The interval of the inputs; our choice.
    random_state
        None, a non-negative integer, a numpy Generator or a numpy RandomState.
    return_X_y
        True for ``(X, y)`` of shapes (n_samples, 1) and (n_samples,); False for a
        ``sklearn.utils.Bunch``, which also holds ``noiseless``, the values before noise.
    """
    source, x, scale = _inputs(n_samples, noise, domain, random_state)
    error = scale * source.standard_normal(x.size)
    return _deliver(x, error, sinc.__doc__, "Pelckmans2005", return_X_y)


@overload
def sinc_outliers(
    n_samples: int = 300,
    *,
    noise: float = 0.1,
    n_outliers: int = 3,
    outlier_size: float = 2.0,
    domain: Interval = (-5.0, 5.0),
    random_state: RandomState = None,
    return_X_y: Literal[True] = True,
) -> Arrays: ...
@overload
def sinc_outliers(
    n_samples: int = 300,
    *,
    noise: float = 0.1,
    n_outliers: int = 3,
    outlier_size: float = 2.0,
    domain: Interval = (-5.0, 5.0),
    random_state: RandomState = None,
    return_X_y: Literal[False],
) -> "Bunch": ...
def sinc_outliers(
    n_samples: int = 300,
    *,
    noise: float = 0.1,
    n_outliers: int = 3,
    outlier_size: float = 2.0,
    domain: Interval = (-5.0, 5.0),
    random_state: RandomState = None,
    return_X_y: bool = True,
) -> "Arrays | Bunch":
    """Draw sinc plus Gaussian noise and three outliers, N = 300 in section 5 of [Suykens2002].

    The paper states neither the level of the noise nor where and how large the outliers are. Our choice: rows drawn at
    random without repetition, each shifted up or down, with equal chance, by ``outlier_size``.

    Parameters
    ----------
    n_samples
        Number of rows.
    noise
        Standard deviation of the Gaussian noise; our choice.
    n_outliers
        How many rows are shifted, none up to all.
    outlier_size
        The shift, added to the Gaussian noise; 2 is twenty deviations of the default noise.
    domain, random_state, return_X_y
        As in ``sinc``; the Bunch also holds ``outliers``, the shifted rows in increasing order.
    """
    count = check_count("n_samples", n_samples, least=1, usual=300)
    shifted = check_count("n_outliers", n_outliers, least=0, most=count, usual=0)
    size = check_real("outlier_size", outlier_size, least=0.0, usual=2.0)
    source, x, scale = _inputs(count, noise, domain, random_state)
    error = scale * source.standard_normal(count)
    outliers = np.sort(source.permutation(count)[:shifted])
    error[outliers] += size * np.where(source.uniform(size=shifted) < 0.5, -1.0, 1.0)
    return _deliver(x, error, sinc_outliers.__doc__, "Suykens2002", return_X_y, outliers=outliers)


@overload
def sinc_student(
    n_samples: int = 300,
    df: float = 4,
    *,
    noise: float = 0.1,
    domain: Interval = (-5.0, 5.0),
    random_state: RandomState = None,
    return_X_y: Literal[True] = True,
) -> Arrays: ...
@overload
def sinc_student(
    n_samples: int = 300,
    df: float = 4,
    *,
    noise: float = 0.1,
    domain: Interval = (-5.0, 5.0),
    random_state: RandomState = None,
    return_X_y: Literal[False],
) -> "Bunch": ...
def sinc_student(
    n_samples: int = 300,
    df: float = 4,
    *,
    noise: float = 0.1,
    domain: Interval = (-5.0, 5.0),
    random_state: RandomState = None,
    return_X_y: bool = True,
) -> "Arrays | Bunch":
    """Draw sinc plus Student t noise, N = 300 in section 5 of [Suykens2002].

    The paper has a central t distribution with 4 degrees of freedom and does not state its scale.

    Parameters
    ----------
    n_samples
        Number of rows.
    df
        Degrees of freedom; fewer means heavier tails, and 1 is Cauchy's law, the least accepted.
    noise
        Factor of the t variate, our choice. For df > 2 the standard deviation of the error is
        ``noise * sqrt(df / (df - 2))``.
    domain, random_state, return_X_y
        As in ``sinc``.
    """
    freedom = check_real("df", df, least=1.0, usual=4.0)
    source, x, scale = _inputs(n_samples, noise, domain, random_state)
    error = scale * source.standard_t(freedom, size=x.size)
    return _deliver(x, error, sinc_student.__doc__, "Suykens2002", return_X_y)


def _inputs(
    n_samples: object, noise: object, domain: object, random_state: object
) -> tuple[np.random.Generator | np.random.RandomState, NDArray[np.float64], float]:
    """Check the common arguments and draw the inputs."""
    count = check_count("n_samples", n_samples, least=1, usual=300)
    scale = check_real("noise", noise, least=0.0, usual=0.1)
    low, high = check_interval("domain", domain)
    source = random_source(random_state)
    return source, source.uniform(low, high, size=count), scale


def _deliver(
    x: NDArray[np.float64],
    error: NDArray[np.float64],
    description: str | None,
    key: str,
    return_X_y: bool,
    **extras: Any,
) -> "Arrays | Bunch":
    noiseless = np.sinc(x)
    record = DatasetRecord(
        X=x[:, np.newaxis],
        y=noiseless + error,
        feature_names=("x",),
        target_name="y",
        description=description,
        citation=cite(key),
        extras={"noiseless": noiseless, **extras},
    )
    return deliver(record, return_X_y)
