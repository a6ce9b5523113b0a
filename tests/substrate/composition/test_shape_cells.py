"""Bounds of shapes in cells, against values at random points."""

import numpy as np
import pytest

from substrate import Everywhere, Substrate
from substrate.composition.expanded_function import ExpandedFunction
from substrate.composition.result import Further
from substrate.composition.shape_oracle import ShapePlan
from substrate.kernels import RBF

EVERYWHERE = Everywhere()


def rows(n=20, d=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 4.0, (n, d))
    return X, np.tanh(2.0 * (X[:, 0] - 1.0)) + 0.4 * rng.standard_normal(n)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", ["hessian", "slope"])
def test_no_point_of_a_cell_is_below_its_bound(d, kind):
    """At random points of cells of several sizes; the bound of a small cell is near the smallest value there."""
    X, _ = rows(12, d)
    rng = np.random.default_rng(1)
    s = Substrate(RBF(1.5), X, np.zeros(12))
    shape = (s.hessian(EVERYWHERE) if kind == "hessian" else s.gradient(EVERYWHERE, 0)) >= 0.0
    function = ExpandedFunction(s, (Further(X, rng.standard_normal(12)),), 0.3)
    target = ShapePlan.of(shape).bind([function]).targets[0]
    for width in (0.5, 0.05):
        lower = rng.uniform(X.min(axis=0), X.max(axis=0) - width, (6, d))
        bounds, centres = target.bounds(lower, lower + width)
        for cell, bound, centre in zip(lower, bounds, centres, strict=True):
            values = target.values(cell + width * rng.uniform(0.0, 1.0, (300, d)))
            assert values.min() >= bound
            assert centre >= values.min() - 10.0 * width
            if width == 0.05:
                assert values.min() - bound <= 0.05
