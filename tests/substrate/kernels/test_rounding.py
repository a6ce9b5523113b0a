"""What a kernel says of its rounding is true: against ball arithmetic, on points in all units, and hostile ones."""

import math

import numpy as np
import pytest
from scipy import sparse

from substrate.errors import SubstrateError
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial, PowerExponential, Symmetric

flint = pytest.importorskip("flint", reason="kernel values are compared in ball arithmetic")
from substrate.bounds.proof import balls, formula_of, precision  # noqa: E402

KERNELS = {
    "RBF": lambda width: RBF(width),
    "Laplacian": lambda width: Laplacian(width),
    "Matern": lambda width: Matern(width),
    "Matern 5/2": lambda width: Matern(width, 2.5),
    "Matern 21/2": lambda width: Matern(width, 10.5),
    "PowerExponential": lambda width: PowerExponential(width, 1.5, 0.5),
    "Linear": lambda width: Linear(),
    "Polynomial": lambda width: Polynomial(3),
    "homogeneous": lambda width: Polynomial(5, 0.0),
    "Sum": lambda width: RBF(width) + Linear(),
    "Product": lambda width: RBF(width) * Polynomial(2),
    "Scaled": lambda width: 3e8 * RBF(width),
    "even": lambda width: Symmetric(RBF(width) + Linear()),
    "odd": lambda width: Symmetric(RBF(width), "odd"),
    "Componentwise": lambda width: Componentwise(RBF(width)),
}
BY_COLUMN = {
    "RBF by column": RBF,
    "Laplacian by column": Laplacian,
    "Matern by column": Matern,
    "PowerExponential by column": PowerExponential,
}


def points(seed):
    """Few points in some unit, with offsets, duplicates, outliers, and one row that all but vanishes."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 6)), int(rng.choice([1, 2, 3, 20]))
    unit = 10.0 ** rng.choice([-150, -12, 0, 0, 12, 150])
    X = unit * (rng.normal(size=(n, d)) + rng.choice([0.0, 1e3, 1e8]))
    if rng.random() < 0.3:
        X[-1] = X[0]
    if rng.random() < 0.3:
        X[0] *= rng.choice([1e-160, 1e5])
    width = float((X.std() or unit) * 10.0 ** rng.uniform(-2, 2))
    return sparse.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0)) if rng.random() < 0.2 else X, width


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("name", [*KERNELS, *BY_COLUMN])
@pytest.mark.covering
def test_values_are_as_near_as_the_kernel_says(name, part):
    compared = 0
    for seed in range(part, 5 if name == "Matern 0.8" else 25, 2):  # a Bessel function takes its time
        X, width = points(seed)
        kernel = (
            BY_COLUMN[name](tuple(width * np.resize([1.0, 3.0, 0.2], X.shape[1])))
            if name in BY_COLUMN
            else KERNELS[name](width)
        )
        try:
            plain = kernel(X)
        except SubstrateError:  # refused: it overflows
            continue
        n = X.shape[0]
        enclosed = kernel.enclose(X, X)
        radii = np.broadcast_to(enclosed.radius, (n, n))
        roots = np.sqrt(np.maximum(kernel.diag(X), 1e-290))
        with precision(300):
            rows = [balls(row) for row in (X.toarray() if sparse.issparse(X) else X)]
            formula = formula_of(kernel, X.shape[1])
            for i in range(n):
                for j in range(n):
                    true, size = formula(rows[i], rows[j]), flint.arb(roots[i]) * flint.arb(roots[j])
                    p, radius = kernel.rounding(X), float(radii[i, j])
                    assert math.isinf(p) or abs(flint.arb(plain[i, j]) - true) <= flint.arb(p) * size, (seed, i, j)
                    off = abs(flint.arb(enclosed.middle[i, j]) - true)
                    assert not math.isfinite(radius) or off <= flint.arb(radius), (seed, i, j)
                    compared += 2
    assert compared > 50


def test_a_constant_column_of_another_world_costs_no_digits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 2))
    far = np.column_stack([np.full(6, 1e160), X])
    for kernel in (RBF(1.0), Laplacian(1.0), Matern(1.0)):
        enclosed = kernel.enclose(far, far)
        np.testing.assert_allclose(enclosed.middle, kernel(X), rtol=0.0, atol=1e-14)
        assert np.max(enclosed.radius) < 1e-14
