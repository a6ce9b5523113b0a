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
(0.7071067811865475, 2.82842712474619)
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import positive
from substrate.errors import DeclarationError

__all__ = ["CONVENTIONS", "Convention", "gamma_from", "gamma_to", "sigma_from", "sigma_to", "table"]


class Relation(NamedTuple):
    r"""Their number as :math:`c\, q^p N^r` of ours, q being gamma or sigma."""

    factor: float = 1.0
    power: float = 1.0
    power_of_n: float = 0.0

    def to_theirs(self, value: float, n: int) -> float:
        """Return their number for ours."""
        return float(self.factor * value**self.power * float(n) ** self.power_of_n)

    def to_ours(self, value: float, n: int) -> float:
        """Return our number for theirs."""
        return float((value / (self.factor * float(n) ** self.power_of_n)) ** (1.0 / self.power))


class Convention(NamedTuple):
    """How a paper or package writes the weight of the errors and the width of the Gaussian kernel.

    ``weight`` and ``width`` are the relations as printed, and ``of_gamma`` and ``of_sigma`` the same as numbers.
    """

    weight: str
    of_gamma: Relation
    width: str = "sigma"
    of_sigma: Relation = Relation()


_SAME = Relation()
_RATE = "rate = 1/sigma^2", Relation(power=-2.0)

#: Every known convention by name.
CONVENTIONS: dict[str, Convention] = {
    "Pelckmans2005": Convention("gamma", _SAME),
    "Suykens2002": Convention("gamma", _SAME),
    "Carvalho2006": Convention("gamma", _SAME),
    "Cawley2004": Convention("gamma_003 = gamma/2", Relation(0.5)),
    "Cawley2002": Convention("gamma_000 = N gamma/2", Relation(0.5, power_of_n=1.0)),
    "scikit-learn": Convention("alpha = 1/gamma", Relation(power=-1.0), *_RATE),
    "scikit-learn SVM": Convention("C = gamma", _SAME, *_RATE),
    "scikit-learn SVM, squared loss": Convention("C = gamma/2", Relation(0.5), *_RATE),
    "scikit-learn Gaussian process": Convention(
        "alpha = 1/gamma", Relation(power=-1.0), "length_scale = sigma/sqrt(2)", Relation(math.sqrt(0.5))
    ),
    "LS-SVMlab": Convention("gam = gamma", _SAME, "sig2 = sigma^2/2 (its code)", Relation(0.5, 2.0)),
    "LS-SVMlab, help text": Convention("gam = gamma", _SAME, "sig2 = sigma^2", Relation(power=2.0)),
    "kernlab": Convention("tau = 1/(N gamma)", Relation(power=-1.0, power_of_n=-1.0), *_RATE),
}


def _find(name: str) -> Convention:
    if name not in CONVENTIONS:
        raise DeclarationError(f"no convention named {name!r}; there are {', '.join(CONVENTIONS)}")
    return CONVENTIONS[name]


def _convert(convert: Callable[[float, int], float], value: float, n: int, what: str) -> float:
    try:
        return positive(convert(value, n), what)
    except (ArithmeticError, DeclarationError) as error:
        raise DeclarationError(f"{what} leaves the range of floating point; rescale the data first") from error


def _size(name: str, n: int | None) -> int:
    convention = _find(name)
    if n is None and convention.of_gamma.power_of_n:
        raise DeclarationError(f"{name}: {convention.weight} depends on the number of rows; pass n=N")
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise DeclarationError(f"n must be a number of rows >= 1, received {n!r}")
    return 1 if n is None else n


def gamma_from(name: str, value: float, n: int | None = None) -> float:
    """Return our gamma for the weight of the errors (or ridge, or C) in a convention.

    :equation [Cawley2002]_ (3): the error term as a mean: gamma divided by the number of rows
    """
    relation, number = _find(name).of_gamma, positive(value, "value")
    return _convert(relation.to_ours, number, _size(name, n), f"gamma for {name}'s {value!r}")


def gamma_to(name: str, gamma: float, n: int | None = None) -> float:
    """Return the weight (or ridge, or C) in a convention for our gamma."""
    relation, number = _find(name).of_gamma, positive(gamma, "gamma")
    return _convert(relation.to_theirs, number, _size(name, n), f"{name}'s weight for gamma = {gamma!r}")


def sigma_from(name: str, value: Any) -> Any:
    """Return our sigma for the width of the Gaussian kernel in a convention, one, or one per column."""
    relation = _find(name).of_sigma
    return _by_column(
        lambda width: _convert(relation.to_ours, width, 1, f"sigma for {name}'s {width!r}"), value, "value"
    )


def sigma_to(name: str, sigma: Any) -> Any:
    """Return the parameter of the Gaussian kernel in a convention for our sigma, of one width or of one per column."""
    relation = _find(name).of_sigma
    return _by_column(
        lambda width: _convert(relation.to_theirs, width, 1, f"{name}'s width for sigma = {width!r}"), sigma, "sigma"
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
    rows = [f"| {name} | {c.weight} | {c.width} |" for name, c in CONVENTIONS.items()]
    return "\n".join(["| who | weight of the errors | width of the Gaussian |", "|---|---|---|", *rows])
