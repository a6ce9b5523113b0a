"""The bound of a reduced fit counts what is not known: coarse sums and coarse products leave it above the distance."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from substrate.arrays import Array
from substrate.certificates.enclosed import Double
from substrate.kernels import RBF
from substrate.reduced import certificate
from substrate.reduced.basis_matrix import BasisMatrix
from substrate.reduced.certificate import ErrorsRounded, Residuals, reduced_accuracy, rounded_errors
from substrate.reduced.curvature import Curvature
from substrate.reduced.features import eigen_features
from substrate.reduced.moments import origin_of
from substrate.reduced.rows import KernelRows
from substrate.reduced.solution import residual_pass
from substrate.reduced.spectrum import reduced_spectrum
from substrate.reduced.statistic import accumulate
from substrate.streaming.survey import TargetSummary
from tests.oracles.array_homes import HOMES, sender

LAM = 0.5
FEW = 12


@dataclass(frozen=True)
class Moved:
    """A machine moved away from its optimum, with what its certificate is computed from."""

    residuals: Residuals
    rounded: ErrorsRounded
    curvature: Curvature
    coefficients: Array
    bias: Array
    unit: float
    targets: TargetSummary
    pull: Array
    distance: float

    def bound(self, **changes: object) -> float:
        stated = replace(self, **changes)
        tolerances = stated.residuals.tolerances(self.unit, self.targets, 1e-6)
        found = reduced_accuracy(
            stated.residuals, stated.rounded, self.curvature, self.coefficients, self.bias, LAM, self.unit, tolerances
        )
        return found.rows[0].value


def moved_machine(seed: int) -> Moved:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3))
    y = (np.sin(X[:, 0]) + 0.1 * rng.normal(size=200))[:, None]
    kernel, points = RBF(2.0), X[:FEW]
    rows, K = KernelRows.of(kernel, X, points, y, None), kernel(points)
    known, features, unit = rows.target_summary(), eigen_features(K), float(np.abs(y).max())
    statistic = accumulate(rows, features, origin_of(K, known, unit), LAM, method="accumulated")
    spectrum = reduced_spectrum(features, statistic.origin, statistic.total, statistic.error)
    basis = BasisMatrix(rows.values, K, features)
    curvature = spectrum.curvature(basis, rows.product_terms, statistic.sums.lengths)
    values, t = kernel(X, points), y[:, 0] / unit
    centred = values - values.mean(axis=0)
    optimum = np.linalg.solve(centred.T @ centred + LAM * K, centred.T @ t)
    beta = optimum + 0.05 * rng.normal(size=FEW)
    bias = np.array([float(np.mean(t - values @ beta))])
    residuals = residual_pass(rows, unit, beta[:, None], bias, centre=statistic.origin.targets)
    rounded = rounded_errors(residuals, np.asarray(curvature.sizes), beta[:, None], bias, rows.product_terms)
    return Moved(
        residuals=residuals,
        rounded=rounded,
        curvature=curvature,
        coefficients=beta[:, None],
        bias=bias,
        unit=unit,
        targets=known,
        pull=LAM * K @ beta[:, None],
        distance=unit * float(np.linalg.norm(centred @ (beta - optimum))) / np.sqrt(200),
    )


@pytest.mark.parametrize("seed", range(4))
def test_sums_that_hide_the_gradient_within_their_rounding_leave_a_bound(seed):
    """The stated sums make the gradient vanish; they are right within the rounding that is stated with them."""
    moved = moved_machine(seed)
    change = np.abs(moved.pull - np.asarray(moved.residuals.slope))
    size = np.asarray(moved.curvature.sizes)[:, None] * np.sqrt(moved.residuals.diagonal * moved.residuals.squares)
    coarse = replace(moved.rounded, slopes=float(np.max(change / size)))
    hidden = replace(moved.residuals, slope=moved.pull)
    assert moved.distance <= moved.bound() <= 2.0 * moved.distance
    assert moved.bound(residuals=hidden) < 1e-6 * moved.distance, "the stated sums do not hide the gradient"
    assert moved.bound(residuals=hidden, rounded=coarse) >= moved.distance


@pytest.mark.parametrize("seed", range(4))
def test_a_product_that_hides_the_gradient_within_its_radius_leaves_a_bound(seed, monkeypatch):
    """The product of T with the slope is enclosed about zero, with a radius of its own size."""
    moved, accurate = moved_machine(seed), certificate._multiply

    def enclose_about_zero(matrix, vectors):
        product = accurate(matrix, vectors)
        middle = (product if isinstance(product, Double) else product.round()).middle
        return Double(np.zeros_like(middle), np.abs(middle) * (1.0 + 1e-9))

    monkeypatch.setattr(certificate, "_multiply", enclose_about_zero)
    assert moved.bound() >= moved.distance


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("scale", [1.0, 1e-160])
def test_a_product_on_a_device_is_right_within_its_radius(home, scale):
    """Sums of terms of alternating sign, and of terms whose products are subnormal."""
    pytest.importorskip(home)
    rng = np.random.default_rng(5)
    half = rng.normal(size=(6, 20))
    matrix = scale * np.column_stack([half, -half * (1.0 + 1e-13 * rng.normal(size=half.shape))])
    vectors = scale * np.vstack([part := rng.normal(size=(20, 2)), part])
    found = certificate._multiply(sender(home)(matrix), Double(vectors, np.zeros_like(vectors)))
    exact = [
        [sum(Fraction(a) * Fraction(b) for a, b in zip(row, column, strict=True)) for column in vectors.T]
        for row in matrix
    ]
    errors = [
        [abs(Fraction(float(m)) - e) for m, e in zip(r, es, strict=True)]
        for r, es in zip(found.middle, exact, strict=True)
    ]
    assert any(error > 0 for row in errors for error in row), "nothing is rounded here"
    assert all(
        e <= Fraction(float(r))
        for es, rs in zip(errors, found.radius, strict=True)
        for e, r in zip(es, rs, strict=True)
    )
