"""Errors from the sums of a fit: right within their bounds, in every unit; wrong sums and wrong answers are noticed."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import RobustSparseLSSVMRegressor, SparseLSSVMRegressor
from problems.estimators.reduced import fit as fits
from substrate.kernels import RBF, Linear, Polynomial
from substrate.reduced import Basis, solution
from substrate.reduced.answer import AnswerBound
from substrate.reduced.basis_matrix import BasisMatrix
from substrate.reduced.features import INNER, eigen_features, product
from substrate.reduced.moments import origin_of
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.reduced.solution import residual_pass, solve_reduced
from substrate.reduced.spectrum import reduced_spectrum
from substrate.reduced.statistic import LARGEST_ERROR, accumulate

RNG = np.random.default_rng(3)
X = RNG.normal(size=(400, 3))
Y = np.column_stack([np.sin(X[:, 0]) + 0.1 * RNG.normal(size=400), X[:, 1] * X[:, 2]])
WEIGHTS = RNG.uniform(0.1, 10.0, size=400)
POINTS, LAM = X[:12], 0.5


def summed(kernel, X, Y, points, weights=None, lam=LAM):
    rows, K = KernelRows.of(kernel, X, points, Y, weights), kernel(points)
    known, features = rows.target_summary(), eigen_features(K)
    unit = float(np.abs(Y).max())
    statistic = accumulate(rows, features, origin_of(K, known, unit), lam, method="accumulated")
    return rows, K, known, statistic, reduced_spectrum(features, statistic.origin, statistic.total, statistic.error)


def judge_of(rows, K, known, statistic, spectrum, lam=LAM):
    basis = BasisMatrix(rows.values, K, spectrum.features)
    curvature = spectrum.curvature(basis, rows.product_terms, statistic.sums.lengths)
    return AnswerBound(rows, curvature, lam, statistic.origin.unit, known)


def facts_of(model):
    return dict(model.certificate_.record)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
@pytest.mark.parametrize(("scale", "shift", "unit"), [(1.0, 0.0, 1.0), (1e-12, 0.0, 1e12), (1e12, 1e8, 1e-12)])
def test_they_are_those_of_a_pass_over_the_rows(weights, scale, shift, unit):
    """Columns in units of 1e-12 to 1e12, offsets of 1e8 in columns and targets."""
    kernel = RBF(2.0 * unit)
    inputs, targets = unit * (X + shift), scale * (Y + shift)
    rows, _, _, statistic, _ = summed(kernel, inputs, targets, inputs[:12], weights)
    sums, origin = statistic.sums, statistic.origin
    assert sums.agree
    beta, bias = RNG.normal(size=(12, 2)), origin.targets + 0.1
    found, rounded = sums.residuals(beta, bias, np.ones(12), sums.slice_sums())
    direct = residual_pass(rows, origin.unit, beta, bias, centre=origin.targets)
    off = rounded.pulled * sums.lengths[:, None] + rounded.shifted * origin.kernel_values[:, None] * 20.0
    rounding = rows.terms * np.finfo(float).eps * found.norm * (np.sqrt(found.squares) + np.sqrt(found.targets))
    assert np.all(np.abs(found.slope - direct.slope) <= off + rounding)
    assert_allclose(found.squares, direct.squares, rtol=1e-6)
    assert_allclose(found.total, direct.total, atol=1e-6 * np.sqrt(found.mass * found.squares.max()))
    assert_allclose(found.kernel_squares, direct.kernel_squares, rtol=1e-10)
    assert_allclose([found.mass, found.diagonal], [direct.mass, direct.diagonal], rtol=1e-12)
    assert found.rounding == direct.rounding


def test_the_bound_on_their_rounding_covers_exact_arithmetic():
    # pairs of vectors that nearly coincide, with coefficients that cancel: little is left of large terms
    few, points = X[:60], np.repeat(X[:3], 2, axis=0)[:5] + 1e-5 * np.array([[0.0], [1.0], [0.0], [1.0], [0.0]])
    _, _, _, statistic, _ = summed(RBF(2.0), few, Y[:60, :1], points)
    sums = statistic.sums
    beta, bias = 1e5 * np.array([[1.0], [-1.0], [1.0], [-1.0], [1e-5]]), np.array([0.3])
    found, rounded = sums.residuals(beta, bias, np.ones(5), sums.slice_sums())
    Z = [[Fraction(float(v)) for v in row] for row in RBF(2.0)(few, points) - sums.origin.kernel_values]
    t = [Fraction(float(v)) for v in Y[:60, 0] / sums.origin.unit - sums.origin.targets[0]]
    o, b = [Fraction(float(v)) for v in sums.origin.kernel_values], [Fraction(float(v)) for v in beta[:, 0]]
    shift = Fraction(0.3) - Fraction(float(sums.origin.targets[0])) + sum(x * y for x, y in zip(o, b, strict=True))
    e = [ti - sum(x * y for x, y in zip(z, b, strict=True)) - shift for z, ti in zip(Z, t, strict=True)]
    total = sum(e)
    assert abs(float(total) - found.total[0]) <= rounded.shifted[0] * np.sqrt(60.0)
    assert float(sum(v * v for v in e)) <= found.squares[0]
    for j in range(5):
        exact = float(sum(z[j] * v for z, v in zip(Z, e, strict=True)))
        computed = found.slope[j, 0] - sums.origin.kernel_values[j] * found.total[0]
        last_place = 4.0 * np.finfo(float).eps * (abs(exact) + abs(found.total[0]))
        assert abs(exact - computed) <= rounded.pulled[0] * sums.lengths[j] + last_place


@pytest.mark.parametrize("what", ["second", "first", "cross"])
def test_a_wrong_sum_is_noticed(what):
    rows, K, known, statistic, spectrum = summed(RBF(2.0), X, Y, POINTS)
    sums = statistic.sums
    values = getattr(sums.moments, what).copy()
    place = (3, 7)[: values.ndim] if what != "cross" else (3, 1)
    values[place] *= 1.0 + 1e-9
    if what == "second":
        values[place[::-1]] = values[place]
    broken = replace(sums, moments=replace(sums.moments, **{what: values}))
    assert sums.agree
    assert not broken.agree
    solved = solve_reduced(rows, spectrum, LAM, K, targets=known, sums=broken)
    assert "errors" not in dict(solved.facts)  # a pass was made instead
    assert "errors" in dict(solve_reduced(rows, spectrum, LAM, K, targets=known, sums=sums).facts)


def test_wrong_kernel_values_are_noticed(monkeypatch):
    calls, fill = [0], KernelValues.fill

    def failing(self, X, out):
        fill(self, X, out)
        calls[0] += 1
        out *= 1.0 + 1e-9 * (calls[0] == wrong)

    for wrong in range(1, 4):
        calls[0] = 0
        with monkeypatch.context() as patched:
            patched.setattr(KernelValues, "fill", failing)
            _, _, _, statistic, _ = summed(RBF(2.0), X, Y, POINTS)
        assert statistic.sums.agree == (wrong > calls[0])


@pytest.mark.parametrize("kernel", [RBF(2.0), Linear(), Polynomial(2, 1.0)], ids=repr)
def test_an_answer_that_is_off_by_the_promised_accuracy_fails(kernel):
    found = summed(kernel, X, Y, POINTS)
    sums, spectrum = found[3].sums, found[4]
    judge = judge_of(*found)
    solved = solve_reduced(found[0], spectrum, LAM, found[1], targets=found[2], sums=sums)
    assert solved.rows[0].passes
    K = kernel(X, POINTS)
    unit = sums.origin.unit
    for k in range(2):
        for way in (RNG.normal(size=12), np.eye(12)[4]):
            step = np.zeros((12, 2))
            moved = K @ way - (K @ way).mean()
            step[:, k] = way * 3e-6 * Y[:, k].std() / np.sqrt(np.mean(moved**2))
            beta = (solved.coefficients + step) / unit
            bias = (solved.bias - (K @ step).mean(axis=0)) / unit
            errors = sums.residuals(beta, bias, judge.curvature.sizes, sums.slice_sums())
            assert not judge.bound_from_sums(*errors, beta, bias).passes


def test_one_pass_is_made_unless_more_digits_are_required(monkeypatch):
    def refused(*_, **__):
        raise RuntimeError("a second pass")

    monkeypatch.setattr(solution, "residual_pass", refused)
    basis = Basis(20, "random", random_state=0)
    for model in (SparseLSSVMRegressor(RBF(2.0), basis=basis), RobustSparseLSSVMRegressor(RBF(2.0), basis=basis)):
        assert model.fit(X, Y[:, 0], sample_weight=WEIGHTS).certificate_.holds
    assert "errors" in facts_of(SparseLSSVMRegressor(RBF(2.0), basis=basis).fit(X, Y[:, 0]))
    with pytest.raises(RuntimeError, match="a second pass"):
        SparseLSSVMRegressor(RBF(2.0), basis=basis, tol=1e-13).fit(X, Y[:, 0])


def test_few_digits_in_the_sums_are_enough_where_the_answer_is_proved(monkeypatch):
    """Otherwise features are summed; leave-one-out holds either way, and predictions are the same."""
    rng = np.random.default_rng(0)
    many = rng.normal(size=(2000, 5))
    y = np.sin(many[:, 0]) + 0.1 * rng.normal(size=2000)
    found = {}
    for accepted in (LARGEST_ERROR, 5e-7, 1e-2):
        monkeypatch.setattr(fits, "accepted_error", lambda _, accepted=accepted: accepted)
        for gamma in (2.0, 1e4):
            model = SparseLSSVMRegressor(RBF(12.0), gamma, basis=Basis(80, "random", random_state=0)).fit(many, y)
            assert model.certificate_.holds
            found[accepted, gamma] = facts_of(model)["statistic"].split(",")[0], model.predict(many[:100])
    for gamma in (2.0, 1e4):
        for accepted in (5e-7, 1e-2):
            bound = 2e-6 * y.std() * np.sqrt(2000.0)
            assert np.abs(found[accepted, gamma][1] - found[LARGEST_ERROR, gamma][1]).max() <= bound
    assert {name for name, _ in found.values()} == {"accumulated", "row-wise"}
    assert found[1e-2, 1e4][0] == "row-wise"  # tried, and not proved


@pytest.mark.parametrize("inner", [1, INNER, INNER + 1, 3 * INNER])
def test_a_product_in_parts_is_a_product(inner):
    left, right = RNG.normal(size=(7, inner)), RNG.normal(size=(inner, 5))
    bound = (inner + 2) * np.finfo(float).eps * (np.abs(left) @ np.abs(right))
    assert np.all(np.abs(product(left, right) - left @ right) <= bound)
    assert product(left, right[:, :0]).shape == (7, 0)


@pytest.mark.parametrize("lam", [1e-3, 0.5])
@pytest.mark.parametrize("kernel", [RBF(2.0), RBF(8.0)], ids=repr)
def test_an_error_of_the_sum_of_errors_moves_fitted_values_by_no_more_than_its_bound(kernel, lam):
    """The same error in any other direction may move them much farther, and none is bounded by less than its own."""
    found = summed(kernel, X, Y, POINTS)
    spectrum = found[-1]
    basis = BasisMatrix(KernelValues(kernel, POINTS), found[1], spectrum.features)
    curvature = spectrum.curvature(basis, found[0].product_terms, found[3].sums.lengths)
    reach = curvature.at(lam, 1e-13, np.sqrt(len(X)))
    H = curvature.scatter + lam * np.eye(curvature.features.rank)
    for mean in (curvature.offsets, curvature.mean):  # of sums about their origin, and about zero
        moved = np.linalg.solve(H, mean)
        effect = np.sqrt(moved @ curvature.scatter @ moved)
        bound = reach.of_gradient(mean[:, None])[0]
        assert effect <= bound * (1.0 + 1e-9)
        assert bound <= 1.1 * effect + 1e-6


@pytest.mark.parametrize("kernel", [RBF(2.0), RBF(8.0)], ids=repr)
def test_the_radius_of_a_gradient_moves_fitted_values_by_no_more_than_its_bound(kernel):
    """Whatever the signs of errors in the coordinates of the basis; the sharp bound is the smaller one."""
    found = summed(kernel, X, Y, POINTS)
    spectrum, lam = found[-1], 0.1
    basis = BasisMatrix(KernelValues(kernel, POINTS), found[1], spectrum.features)
    curvature = spectrum.curvature(basis, found[0].product_terms, found[3].sums.lengths)
    reach = curvature.at(lam, 1e-15, np.sqrt(len(X)))
    H = curvature.scatter + lam * np.eye(curvature.features.rank)
    radius = RNG.uniform(0.0, 1e-9, size=(len(POINTS), 2))
    sharp, whole = reach.of_radius(radius), reach.of_radius(radius, sharp=False)
    assert np.all(sharp <= whole)
    for _ in range(20):
        w = radius * RNG.choice([-1.0, 1.0], size=radius.shape)
        moved = np.linalg.solve(H, curvature.features.transform.T @ w)
        effects = np.sqrt(np.einsum("ik,ij,jk->k", moved, curvature.scatter, moved))
        assert np.all(effects <= sharp * (1.0 + 1e-9))


def test_sums_of_a_narrow_kernel_are_about_zero_and_those_of_a_wide_one_about_their_mean():
    """Either way the certificate holds, and the machines agree within its bound."""
    rng = np.random.default_rng(3)
    points = rng.normal(size=(600, 4))
    y = np.sin(points[:, 0]) + 0.1 * rng.normal(size=600)
    for sigma, about_zero in ((1.0, True), (8.0, False)):
        rows, K, known, other, again = summed(RBF(sigma), points, y[:, None], points[:12])
        given = origin_of(K, known, other.origin.unit)
        assert (other.origin.kernel_values == given.kernel_values).all()
        statistic = accumulate(rows, other.features, given, LAM)
        assert (statistic.origin.kernel_values == 0.0).all() == about_zero
        spectrum = reduced_spectrum(statistic.features, statistic.origin, statistic.total, statistic.error)
        one = solve_reduced(rows, spectrum, LAM, K, targets=known, sums=statistic.sums)
        two = solve_reduced(rows, again, LAM, K, targets=known, sums=other.sums)
        assert all(row.passes for row in (*one.rows, *two.rows))
        K_all = rows.values.matrix(points)
        apart = K_all @ (one.coefficients - two.coefficients) + one.bias - two.bias
        assert np.sqrt(np.mean(apart**2)) <= one.rows[0].value + two.rows[0].value
