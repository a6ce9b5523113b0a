"""Ball arithmetic with python-flint: conversion of numbers, kernels by their formulas, and the record of a proof."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from substrate.errors import DataError
from substrate.kernels import RBF, Componentwise, Kernel, Laplacian, Linear, Matern, Polynomial
from substrate.kernels.algebra import Product, Sum
from substrate.kernels.nested import Restricted, Scaled

__all__ = [
    "Proof",
    "above",
    "ball",
    "balls",
    "below",
    "feature_balls",
    "flint",
    "formula_of",
    "precision",
    "worst_proof",
]


def flint() -> Any:
    """The library, or an error with the command that installs it."""
    try:
        import flint as library
    except ImportError as error:
        raise DataError('a proof needs python-flint: pip install "lssvm-substrate[proof]"') from error
    return library


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Set the precision in bits inside the block."""
    context = flint().ctx
    before = context.prec
    context.prec = bits
    try:
        yield
    finally:
        context.prec = before


def ball(value: float) -> Any:
    """A double as a ball without radius."""
    return flint().arb(float(value))


def balls(values: Any) -> list[Any]:
    """A vector of doubles as balls without radius."""
    arb = flint().arb
    return [arb(value) for value in values.tolist()]


def above(value: Any) -> float:
    """A double that is not below anything in the ball; infinity where the ball is not finite."""
    import numpy as np

    if not value.is_finite():
        return float("inf")
    if value == 0:
        return 0.0
    top = float(value.upper())
    return float(np.nextafter(top, np.inf))


def below(value: Any) -> float:
    """A double that is not above anything in the ball."""
    import numpy as np

    return float(np.nextafter(float(value.lower()), -np.inf)) if value.is_finite() else float("-inf")


Point = Sequence[Any]
Formula = Callable[[Point, Point], Any]


@singledispatch
def formula_of(kernel: Kernel, n_features: int) -> Formula:
    """The kernel as a function of two points."""
    raise DataError(
        f"{kernel!r} has no formula in ball arithmetic; proofs support RBF, Laplacian, Matern, Linear, Polynomial, "
        "their sums, products, multiples and restrictions"
    )


def _squared_distance(x: Point, z: Point) -> Any:
    total = ball(0.0)
    for one, other in zip(x, z, strict=True):
        difference = one - other
        total += difference * difference
    return total


@formula_of.register
def _(kernel: RBF, n_features: int) -> Formula:
    scale = -1 / ball(float(kernel.sigma)) ** 2
    return lambda x, z: (_squared_distance(x, z) * scale).exp()


@formula_of.register
def _(kernel: Laplacian, n_features: int) -> Formula:
    scale = -1 / ball(float(kernel.sigma))
    return lambda x, z: (sum((abs(a - b) for a, b in zip(x, z, strict=True)), ball(0.0)) * scale).exp()


@formula_of.register
def _(kernel: Matern, n_features: int) -> Formula:
    nu = ball(kernel.nu)
    root = (2 * nu).sqrt() / ball(float(kernel.sigma))

    def value(x: Point, z: Point) -> Any:
        s = _squared_distance(x, z).sqrt() * root
        if kernel.nu == 0.5:
            return (-s).exp()
        if kernel.nu == 1.5:
            return (1 + s) * (-s).exp()
        if kernel.nu == 2.5:
            return (1 + s + s * s / 3) * (-s).exp()
        if s == 0:
            return ball(1.0)
        return 2 ** (1 - nu) / nu.gamma() * s**nu * flint().arb.bessel_k(s, nu)

    return value


@formula_of.register
def _(kernel: Linear, n_features: int) -> Formula:
    return _inner


def _inner(x: Point, z: Point) -> Any:
    return sum((a * b for a, b in zip(x, z, strict=True)), ball(0.0))


@formula_of.register
def _(kernel: Polynomial, n_features: int) -> Formula:
    offset, degree = ball(kernel.offset), kernel.degree
    return lambda x, z: (_inner(x, z) + offset) ** degree


@formula_of.register
def _(kernel: Sum, n_features: int) -> Formula:
    left, right = formula_of(kernel.left, n_features), formula_of(kernel.right, n_features)
    return lambda x, z: left(x, z) + right(x, z)


@formula_of.register
def _(kernel: Product, n_features: int) -> Formula:
    left, right = formula_of(kernel.left, n_features), formula_of(kernel.right, n_features)
    return lambda x, z: left(x, z) * right(x, z)


@formula_of.register
def _(kernel: Scaled, n_features: int) -> Formula:
    inner, factor = formula_of(kernel.kernel, n_features), ball(kernel.factor)
    return lambda x, z: factor * inner(x, z)


@formula_of.register
def _(kernel: Restricted, n_features: int) -> Formula:
    inner, columns = formula_of(kernel.kernel, len(kernel.columns)), kernel.columns
    return lambda x, z: inner([x[k] for k in columns], [z[k] for k in columns])


@formula_of.register
def _(kernel: Componentwise, n_features: int) -> Formula:
    parts = [formula_of(part, n_features) for part in kernel.components(n_features)]
    return lambda x, z: sum((part(x, z) for part in parts), ball(0.0))


@singledispatch
def feature_balls(kernel: Kernel, x: Point) -> list[Any]:
    """phi(x) in ball arithmetic, in the order of ``kernel.features``."""
    raise DataError(f"{kernel!r} has no features in ball arithmetic")


@feature_balls.register
def _(kernel: Linear, x: Point) -> list[Any]:
    return list(x)


@feature_balls.register
def _(kernel: Polynomial, x: Point) -> list[Any]:
    import math
    from collections import Counter
    from itertools import combinations_with_replacement

    columns = list(x) + ([ball(kernel.offset).sqrt()] if kernel.offset > 0.0 else [])
    made = []
    for chosen in combinations_with_replacement(range(len(columns)), kernel.degree):
        powers = Counter(chosen)
        coefficient = math.factorial(kernel.degree) // math.prod(map(math.factorial, powers.values()))
        value = flint().arb(coefficient).sqrt()
        for column, power in powers.items():
            value *= columns[column] ** power
        made.append(value)
    return made


@feature_balls.register
def _(kernel: Sum, x: Point) -> list[Any]:
    return feature_balls(kernel.left, x) + feature_balls(kernel.right, x)


@feature_balls.register
def _(kernel: Product, x: Point) -> list[Any]:
    right = feature_balls(kernel.right, x)
    return [one * other for one in feature_balls(kernel.left, x) for other in right]


@feature_balls.register
def _(kernel: Scaled, x: Point) -> list[Any]:
    root = ball(kernel.factor).sqrt()
    return [root * value for value in feature_balls(kernel.kernel, x)]


@feature_balls.register
def _(kernel: Restricted, x: Point) -> list[Any]:
    return feature_balls(kernel.kernel, [x[k] for k in kernel.columns])


@feature_balls.register
def _(kernel: Componentwise, x: Point) -> list[Any]:
    return [value for part in kernel.components(len(x)) for value in feature_balls(part, x)]


@dataclass(frozen=True, slots=True)
class Proof:
    """A rigorous bound on the distance of the fitted values from those of the exact optimum.

    ``accuracy`` and ``spread`` are upper and lower ends of their enclosures, in units of y; ``proved`` is whether the
    accuracy is within the tolerance of the spread. ``reason`` states why there is no bound, where there is none.
    """

    accuracy: float
    spread: float
    tolerance: float
    rounding: float
    bits: int
    reason: str = ""

    @property
    def proved(self) -> bool:
        """Whether the fitted values are proved to be as near as the tolerance requires."""
        return math.isfinite(self.accuracy) and self.accuracy <= self._allowed

    @property
    def _allowed(self) -> float:
        return max(self.tolerance * self.spread, self.rounding)

    @property
    def share(self) -> float:
        """The accuracy as a share of what is allowed: at most one where the answer is proved."""
        if self.accuracy == 0.0:
            return 0.0
        return self.accuracy / self._allowed if self._allowed > 0.0 else math.inf

    @property
    def digits(self) -> float:
        """Decimal digits of the spread of y to which the fitted values are known."""
        if self.accuracy == 0.0:
            return math.inf
        if self.spread == 0.0 or not math.isfinite(self.accuracy):
            return 0.0
        return max(0.0, math.log10(self.spread) - math.log10(self.accuracy))

    def __str__(self) -> str:
        if self.reason:
            return f"no proof: {self.reason}"
        verdict = "proved" if self.proved else "not proved"
        return (
            f"{verdict}: fitted values within {self.accuracy:.2e} of the exact optimum "
            f"(spread of y {self.spread:.3g}), {self.digits:.1f} digits, {self.bits} bits"
        )


def worst_proof(proofs: Sequence[Proof]) -> Proof:
    """The proof, of several outputs, that is farthest from its tolerance."""
    return max(proofs, key=lambda one: one.share)
