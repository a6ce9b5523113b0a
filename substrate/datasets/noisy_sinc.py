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

from typing import Any, TypeAlias

import numpy as np

from substrate.arrays import Array, non_negative, real_array, whole_number
from substrate.datasets.dataset import Dataset, RandomState, cite, random_source
from substrate.errors import DataError

__all__ = ["sinc", "sinc_outliers", "sinc_student"]

Interval: TypeAlias = tuple[float, float]


def sinc(
    n_samples: int = 100,
    noise: float = 0.1,
    *,
    domain: Interval = (-5.0, 5.0),
    random_state: RandomState = None,
) -> Dataset:
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
    """
    source, x, scale = _inputs(n_samples, noise, domain, random_state)
    error = scale * source.standard_normal(x.size)
    return _deliver(x, error, sinc.__doc__, "Pelckmans2005")


def sinc_outliers(
    n_samples: int = 300,
    *,
    noise: float = 0.1,
    n_outliers: int = 3,
    outlier_size: float = 2.0,
    domain: Interval = (-5.0, 5.0),
    random_state: RandomState = None,
) -> Dataset:
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
    domain, random_state
        As in ``sinc``; ``outliers`` are the shifted rows in increasing order.
    """
    shifted = whole_number(n_outliers, "n_outliers")
    size = non_negative(outlier_size, "outlier_size", "as a size")
    source, x, scale = _inputs(n_samples, noise, domain, random_state)
    if shifted > x.size:
        raise DataError(f"n_outliers must be at most n_samples={x.size}, received {shifted}")
    error = scale * source.standard_normal(x.size)
    outliers = np.sort(source.permutation(x.size)[:shifted])
    error[outliers] += size * np.where(source.uniform(size=shifted) < 0.5, -1.0, 1.0)
    return _deliver(x, error, sinc_outliers.__doc__, "Suykens2002", outliers=outliers)


def sinc_student(
    n_samples: int = 300,
    df: float = 4,
    *,
    noise: float = 0.1,
    domain: Interval = (-5.0, 5.0),
    random_state: RandomState = None,
) -> Dataset:
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
    domain, random_state
        As in ``sinc``.
    """
    freedom = non_negative(df, "df", "as degrees of freedom")
    if freedom < 1.0:
        raise DataError(f"df must be at least 1, Cauchy's law, received {df!r}")
    source, x, scale = _inputs(n_samples, noise, domain, random_state)
    error = scale * source.standard_t(freedom, size=x.size)
    return _deliver(x, error, sinc_student.__doc__, "Suykens2002")


def _inputs(n_samples: Any, noise: Any, domain: Any, random_state: Any) -> tuple[np.random.Generator, Array, float]:
    """Check the common arguments and draw the inputs."""
    count, scale = whole_number(n_samples, "n_samples", 1), non_negative(noise, "noise", "as a deviation")
    ends = real_array(domain, "domain", ndim=1)
    if ends.shape != (2,) or not 0.0 < 0.5 * ends[1] - 0.5 * ends[0] < 0.25 * np.finfo(np.float64).max:
        raise DataError(f"domain must be a pair (low, high) of finite numbers, low < high; received {domain!r}")
    source = random_source(random_state)
    return source, source.uniform(ends[0], ends[1], count), scale


def _deliver(x: Array, error: Array, description: str | None, key: str, **facts: Any) -> Dataset:
    noiseless = np.sinc(x)
    return Dataset(
        x[:, np.newaxis],
        noiseless + error,
        feature_names=("x",),
        target_name="y",
        description=description,
        citation=cite(key),
        noiseless=noiseless,
        **facts,
    )
