r"""Sums of products of rows being added up: in numpy a few rows at a time, on a device many.

In numpy the products of a few rows are added to one triangle by a symmetric rank-k update, and the other sums of the
same rows while they are in the cache of a core. The bound on the rounding of a sum grows with the number of terms that
are added in sequence ([Higham2002]_ section 4.2), so sums of rows are added to sums of parts, and those to sums of
groups of parts. The sums of products with the probe are added by other operations, which is what makes them a check.
"""

from typing import NamedTuple

import numpy as np

from substrate.arrays import Array
from substrate.kernels.base import strips
from substrate.namespaces import is_device_array, namespace_of, zeros_beside

__all__ = ["CHUNK", "GROUP", "PART", "ProductSums", "product_sums", "sum_products", "terms_in_parts"]

#: Rows whose products are added up at once on a device.
PART = 4096

#: The same in numpy: products of so few rows are as fast as those of many (measured).
CHUNK = 128

#: Parts whose sums are added up before they are added to those of the parts before: a leaf has few groups, too.
GROUP = 16


def terms_in_parts(n_rows: int, size: int) -> int:
    """Return the number of terms in sequence of a sum over rows in parts of ``size``; a part may be an incomplete
    one.
    """
    n_parts = -(-n_rows // size)
    return min(n_rows, size) + min(n_parts, GROUP) + -(-n_parts // GROUP)


def sum_products(left: Array, right: Array) -> Array:
    """Return the sum over rows of products of their entries, left'right, with few columns on the right.

    On a device rows are added up in parts, all parts at once. One number per row on the left gives one row of sums.
    """
    if not is_device_array(left):
        return np.asarray(left.T @ right)
    if left.ndim == 1:
        return sum_products(left[:, None], right)[0, :]
    xp, n = namespace_of(left), int(left.shape[0])
    whole = n - n % PART
    products: Array = left[whole:, :].T @ right[whole:, :]
    if whole:
        stacks = (
            xp.reshape(left[:whole, :], (-1, PART, left.shape[1])),
            xp.reshape(right[:whole, :], (whole // PART, PART, -1)),
        )
        products += xp.sum(xp.matmul(xp.permute_dims(stacks[0], (0, 2, 1)), stacks[1]), axis=0)
    return products


class RowSums(NamedTuple):
    """Sums over rows: of features, of their products, of targets, of products of both, and of squared targets.

    ``mass`` is the sum of the weights; ``probed`` are sums of products times the probe, empty where there is none.
    """

    first: Array
    second: Array
    targets: Array
    cross: Array
    squares: Array
    mass: float
    probed: Array


class ProductSums:
    """Sums over rows in numpy. ``tested`` is the probe; None where nothing is checked."""

    def __init__(self, size: int, outputs: int, origin: Array | None = None, tested: Array | None = None) -> None:
        self.count, self._parts, self._origin, self._tested = 0, 0, origin, tested
        self._mass, self._targets, self._squares = 0.0, np.zeros(outputs), np.zeros(outputs)
        # sums of features with each other; with a one, with the targets and with the products with the probe; and of
        # those products with a one and the targets: over the parts of a group, and over all groups
        shapes = (1 + outputs + (tested is not None), size), (1 + outputs,)
        self._group, self._sums = (
            [np.zeros((size, size), order="F"), *(np.zeros(shape) for shape in shapes)] for _ in range(2)
        )

    def add(self, features: Array, targets: Array, weights: Array | None = None) -> None:
        """Add rows of features, from which the origin is subtracted in place, if one is given."""
        n, roots = features.shape[0], None if weights is None else np.sqrt(weights)
        beside = np.empty((self._sums[1].shape[0], n))  # one row each
        targets_beside = beside[1 : 1 + targets.shape[1]]
        beside[0], targets_beside[...] = 1.0, targets.T
        if roots is not None:  # sums of products: each factor is multiplied by the root of the weight
            beside[: 1 + targets.shape[1]] *= roots
        self.count += int(n)
        self._mass += float(n) if roots is None else float(roots @ roots)
        self._targets += targets_beside @ beside[0]
        self._squares += np.square(targets_beside).sum(axis=1)
        if not features.shape[1]:
            return
        from scipy.linalg.blas import dsyrk

        for rows in strips(n, CHUNK):
            products, cross_products, checks = self._group
            rows_of_features, near = features[rows], beside[:, rows]
            if self._origin is not None:
                rows_of_features -= self._origin
            if roots is not None:
                rows_of_features = rows_of_features * roots[rows, None]
            if self._tested is not None:
                near[-1] = rows_of_features @ self._tested
                checks += near[:-1] @ near[-1]
            # before the update, whose own copies replace these rows in the cache
            cross_products += near @ rows_of_features
            self._group[0] = dsyrk(1.0, rows_of_features.T, beta=float(self._parts > 0), c=products, overwrite_c=1)
            self._parts += 1
            if self._parts == GROUP:
                self._end_group()

    def _end_group(self) -> None:
        if self._parts == 0:
            return
        for total, group in zip(self._sums, self._group, strict=True):
            total += group
        self._parts = 0  # the first update of the next group overwrites the products
        for group in self._group[1:]:
            group[...] = 0.0

    def finish(self) -> RowSums:
        """Return the sums over the rows added so far; of the products, the upper triangle."""
        self._end_group()
        second, cross_products, checks = self._sums
        first, cross = cross_products[0].copy(), np.ascontiguousarray(cross_products[1 : checks.size].T)
        probed = np.zeros(0) if self._tested is None else np.concatenate([cross_products[-1], checks])
        return RowSums(
            first=first,
            second=second,
            targets=self._targets,
            cross=cross,
            squares=self._squares,
            mass=self._mass,
            probed=probed,
        )


class ProductSumsOnDevice:
    """The same on the device of ``like``, which has one number per output; about no origin, and nothing is checked."""

    def __init__(self, size: int, like: Array) -> None:
        outputs, self.count, self._mass = like.shape[0], 0, 0.0
        self._probed = zeros_beside(like, 0)
        self._first, self._second = zeros_beside(like, size), zeros_beside(like, (size, size))
        self._targets, self._squares = zeros_beside(like, outputs), zeros_beside(like, outputs)
        self._cross = zeros_beside(like, (size, outputs))

    def add(self, features: Array, targets: Array, weights: Array | None = None) -> None:
        """Add rows of features."""
        xp = namespace_of(targets)
        ones = xp.ones_like(targets[:, 0])
        if weights is not None:
            ones = xp.sqrt(weights)
            features, targets = features * ones[:, None], targets * ones[:, None]
        self.count += int(features.shape[0])
        self._mass += float(features.shape[0]) if weights is None else float(ones @ ones)
        self._targets += sum_products(ones, targets)
        self._squares += xp.sum(targets * targets, axis=0)
        if self._first.shape[0] == 0:
            return
        products_beside = sum_products(features, xp.concat([ones[:, None], targets], axis=1))
        self._first += products_beside[:, 0]
        self._cross += products_beside[:, 1:]
        for rows in strips(int(features.shape[0]), PART):
            self._second += features[rows, :].T @ features[rows, :]

    def finish(self) -> RowSums:
        """Return the same as in numpy; both triangles are there."""
        return RowSums(
            first=self._first,
            second=self._second.T,
            targets=self._targets,
            cross=self._cross,
            squares=self._squares,
            mass=self._mass,
            probed=self._probed,
        )


def product_sums(
    size: int, like: Array, origin: Array | None = None, tested: Array | None = None
) -> ProductSums | ProductSumsOnDevice:
    """Return sums of no rows yet where ``like`` is, which has one number per output; a device knows no origin."""
    if is_device_array(like):
        return ProductSumsOnDevice(size, like)
    return ProductSums(size, like.shape[0], origin, tested)
