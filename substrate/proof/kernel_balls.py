"""Kernel values in ball arithmetic, each kernel by its formula on two points given as lists of balls."""

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

from substrate.errors import DataError
from substrate.kernels import RBF, Componentwise, Kernel, Laplacian, Linear, Matern, Polynomial
from substrate.kernels.algebra import Product, Restricted, Scaled, Sum
from substrate.proof.balls import ball, flint

__all__ = ["feature_balls", "formula_of"]

Point = Sequence[Any]
Formula = Callable[[Point, Point], Any]


@singledispatch
def formula_of(kernel: Kernel, n_features: int) -> Formula:
    """The kernel as a function of two points."""
    raise DataError(
        f"{kernel!r} has no formula in ball arithmetic; proofs know RBF, Laplacian, Matern, Linear, Polynomial, their "
        "sums, products, multiples and restrictions"
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
