r"""The convention for gamma and sigma, and converters from and to each paper and each other package.

The package uses

.. math:: \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i e_i^2, \qquad k(x, z) = \exp(-\|x - z\|^2 / \sigma^2) .

>>> from substrate import conventions
>>> conventions.gamma_from("kernlab", 0.01, n=50)
2.0
>>> conventions.sigma_to("scikit-learn", 0.5)
4.0

One width per column, :math:`k(x, z) = \exp(-\sum_c (x_c - z_c)^2 / \sigma_c^2)`, is converted column by column:

>>> conventions.sigma_from("scikit-learn Gaussian process", [0.5, 2.0])
(0.7071067811865476, 2.8284271247461903)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import positive
from substrate.errors import DeclarationError

__all__ = ["CONVENTIONS", "Convention", "gamma_from", "gamma_to", "sigma_from", "sigma_to", "table"]


@dataclass(frozen=True, slots=True)
class Convention:
    """How a paper or package writes the weight of the errors and the width of the Gaussian kernel.

    ``weight`` and ``width`` are the relations as printed; each pair of functions converts its number (and N) to ours
    and ours to its.
    """

    name: str
    weight: str
    to_gamma: Callable[[float, int], float]
    from_gamma: Callable[[float, int], float]
    width: str
    to_sigma: Callable[[float], float]
    from_sigma: Callable[[float], float]
    depends_on_n: bool = False


def _same(value: float, n: int = 1) -> float:
    return value


def _inverse(value: float, n: int = 1) -> float:
    return 1.0 / value


def _double(value: float, n: int = 1) -> float:
    return 2.0 * value


def _half(value: float, n: int = 1) -> float:
    return 0.5 * value


def _inverse_root(value: float) -> float:
    return 1.0 / math.sqrt(value)


def _inverse_square(value: float) -> float:
    return 1.0 / value**2


_Width = tuple[str, Callable[[float], float], Callable[[float], float]]
_OWN_WIDTH: _Width = ("sigma", _same, _same)
_RATE: _Width = ("rate = 1/sigma^2", _inverse_root, _inverse_square)

#: Every known convention by name.
CONVENTIONS: dict[str, Convention] = {
    convention.name: convention
    for convention in (
        Convention("Pelckmans2005", "gamma", _same, _same, *_OWN_WIDTH),
        Convention("Suykens2002", "gamma", _same, _same, *_OWN_WIDTH),
        Convention("Carvalho2006", "gamma", _same, _same, *_OWN_WIDTH),
        Convention("Cawley2004", "gamma_003 = gamma/2", _double, _half, *_OWN_WIDTH),
        Convention(
            "Cawley2002",
            "gamma_000 = N gamma/2",
            lambda value, n: 2.0 * value / n,
            lambda gamma, n: 0.5 * n * gamma,
            *_OWN_WIDTH,
            depends_on_n=True,
        ),
        Convention("scikit-learn", "alpha = 1/gamma", _inverse, _inverse, *_RATE),
        Convention("scikit-learn SVM", "C = gamma", _same, _same, *_RATE),
        Convention("scikit-learn SVM, squared loss", "C = gamma/2", _double, _half, *_RATE),
        Convention(
            name="scikit-learn Gaussian process",
            weight="alpha = 1/gamma",
            to_gamma=_inverse,
            from_gamma=_inverse,
            width="length_scale = sigma/sqrt(2)",
            to_sigma=lambda scale: math.sqrt(2.0) * scale,
            from_sigma=lambda sigma: sigma / math.sqrt(2.0),
        ),
        Convention(
            name="LS-SVMlab",
            weight="gam = gamma",
            to_gamma=_same,
            from_gamma=_same,
            width="sig2 = sigma^2/2 (its code)",
            to_sigma=lambda sig2: math.sqrt(2.0 * sig2),
            from_sigma=lambda sigma: sigma**2 / 2.0,
        ),
        Convention(
            name="LS-SVMlab, help text",
            weight="gam = gamma",
            to_gamma=_same,
            from_gamma=_same,
            width="sig2 = sigma^2",
            to_sigma=math.sqrt,
            from_sigma=lambda sigma: sigma**2,
        ),
        Convention(
            "kernlab",
            "tau = 1/(N gamma)",
            lambda tau, n: 1.0 / (n * tau),
            lambda gamma, n: 1.0 / (n * gamma),
            *_RATE,
            depends_on_n=True,
        ),
    )
}


def _find(name: str) -> Convention:
    if name not in CONVENTIONS:
        raise DeclarationError(f"no convention named {name!r}; there are {', '.join(CONVENTIONS)}")
    return CONVENTIONS[name]


def _size(convention: Convention, n: int | None) -> int:
    if n is None and convention.depends_on_n:
        raise DeclarationError(f"{convention.name}: {convention.weight} depends on the number of rows; pass n=N")
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise DeclarationError(f"n must be a number of rows >= 1, received {n!r}")
    return 1 if n is None else n


def _convert(convert: Callable[[], float], what: str) -> float:
    try:
        return positive(convert(), what)
    except (ArithmeticError, DeclarationError) as error:
        raise DeclarationError(f"{what} leaves the range of floating point; rescale the data first") from error


def gamma_from(name: str, value: float, n: int | None = None) -> float:
    """Return our gamma for the weight of the errors (or ridge, or C) in a convention.

    :equation [Cawley2002]_ (3): the error term as a mean: gamma divided by the number of rows
    """
    convention, number = _find(name), positive(value, "value")
    size = _size(convention, n)
    return _convert(lambda: convention.to_gamma(number, size), f"gamma for {name}'s {value!r}")


def gamma_to(name: str, gamma: float, n: int | None = None) -> float:
    """Return the weight (or ridge, or C) in a convention for our gamma."""
    convention, number = _find(name), positive(gamma, "gamma")
    size = _size(convention, n)
    return _convert(lambda: convention.from_gamma(number, size), f"{name}'s weight for gamma = {gamma!r}")


@overload
def sigma_from(name: str, value: float) -> float: ...
@overload
def sigma_from(name: str, value: Sequence[float] | NDArray[Any]) -> tuple[float, ...]: ...
def sigma_from(name: str, value: Any) -> Any:
    """Return our sigma for the width of the Gaussian kernel in a convention, one, or one per column."""
    to_sigma = _find(name).to_sigma
    return _by_column(lambda width: _convert(lambda: to_sigma(width), f"sigma for {name}'s {width!r}"), value, "value")


@overload
def sigma_to(name: str, sigma: float) -> float: ...
@overload
def sigma_to(name: str, sigma: Sequence[float] | NDArray[Any]) -> tuple[float, ...]: ...
def sigma_to(name: str, sigma: Any) -> Any:
    """Return the parameter of the Gaussian kernel in a convention for our sigma, of one width or of one per column."""
    from_sigma = _find(name).from_sigma
    return _by_column(
        lambda width: _convert(lambda: from_sigma(width), f"{name}'s width for sigma = {width!r}"), sigma, "sigma"
    )


def _by_column(convert: Callable[[float], float], value: Any, name: str) -> float | tuple[float, ...]:
    """Return one width converted, or one for each column."""
    several = value.ndim > 0 if isinstance(value, np.ndarray) else isinstance(value, Sequence)
    if not several or isinstance(value, str):
        return convert(positive(value, name))
    if len(value) == 0:
        raise DeclarationError(f"{name} must be a positive number or one per column, received none")
    return tuple(convert(positive(entry, f"{name}[{column}]")) for column, entry in enumerate(value))


def table() -> str:
    """Return all conventions as a markdown table."""
    rows = [f"| {c.name} | {c.weight} | {c.width} |" for c in CONVENTIONS.values()]
    return "\n".join(["| who | weight of the errors | width of the Gaussian |", "|---|---|---|", *rows])
