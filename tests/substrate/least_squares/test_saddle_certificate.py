"""The certificate of the closed form: true solutions pass, tampered ones do not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.certificates import Row
from substrate.certificates.enclosed import Double
from substrate.certificates.rounding import block_length, block_rounding, sum_rounding
from substrate.certificates.tolerance import tolerances_of
from substrate.datasets import motorcycle
from substrate.gram import Gram
from substrate.kernels import RBF, Laplacian
from substrate.least_squares.answer import AnswerProblem, bound_and_refine
from substrate.least_squares.kernel_products import expansion_values
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_certificate import (
    BLOCK_FORMULA,
    CAREFUL_FORMULA,
    BlockRows,
    kernel_roots,
    saddle_rows,
    target_unit,
    worst_rows,
)
from substrate.least_squares.saddle_system import solve_saddle_system

X, Y = motorcycle()
NAMES = ["fit equalities", "stationarity in e", "1'alpha = 0", "duality gap", "backward error"]


@pytest.fixture(scope="module")
def fitted():
    gram = Gram.of(RBF(6.6), X)
    ridge = Regularization(2.0).ridge(np.ones(len(Y)))
    return gram.matrix.copy(), ridge, solve_saddle_system(gram, Y, ridge)


def _verdicts(K, ridge, alpha, bias, y=Y):
    return {row.name: row.passes for row in saddle_rows(K @ alpha, K.diagonal(), y, ridge, alpha, bias)}


def test_the_true_solution_passes_every_row(fitted):
    K, ridge, solved = fitted
    verdicts = _verdicts(K, ridge, solved.support_values, solved.bias)
    assert list(verdicts) == NAMES
    assert all(verdicts.values())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_tampering_with_any_single_support_value_is_caught(fitted, sign):
    K, ridge, solved = fitted
    step = sign * 1e-3 * np.abs(solved.support_values).max()
    missed = []
    for i in range(len(Y)):
        alpha = solved.support_values.copy()
        alpha[i] += step
        verdicts = _verdicts(K, ridge, alpha, solved.bias)
        if any(verdicts[name] for name in NAMES if name != "duality gap"):
            missed.append((i, verdicts))
    assert missed == []


@pytest.mark.parametrize("step", [1e-3, -1e-3, 1e-6, 1e-9])
def test_tampering_with_the_bias_is_caught(fitted, step):
    K, ridge, solved = fitted
    verdicts = _verdicts(K, ridge, solved.support_values, solved.bias + step * np.abs(Y).max())
    assert not verdicts["fit equalities"]
    assert not verdicts["stationarity in e"]
    assert not verdicts["backward error"]


def test_a_feasible_point_that_is_not_optimal_has_a_gap(fitted):
    K, ridge, solved = fitted
    alpha = 0.9 * solved.support_values
    verdicts = _verdicts(K, ridge, alpha, solved.bias)
    assert verdicts["1'alpha = 0"]
    assert not verdicts["duality gap"]


def test_swapping_two_support_values_is_caught_although_their_sum_is_kept(fitted):
    K, ridge, solved = fitted
    alpha = solved.support_values.copy()
    alpha[[0, 100]] = alpha[[100, 0]]
    verdicts = _verdicts(K, ridge, alpha, solved.bias)
    assert verdicts["1'alpha = 0"]
    assert not verdicts["fit equalities"]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_solution_that_is_not_finite_fails_every_row_it_touches(fitted, bad):
    K, ridge, solved = fitted
    alpha = solved.support_values.copy()
    alpha[3] = bad
    with np.errstate(invalid="ignore"):
        assert not any(_verdicts(K, ridge, alpha, solved.bias).values())


@pytest.mark.parametrize("unit", [1e-300, 1e-150, 1e-12, 1e12, 1e150, 1e250])
def test_the_verdict_does_not_depend_on_the_unit_of_the_target(fitted, unit):
    K, ridge, solved = fitted
    alpha, b = unit * solved.support_values, unit * solved.bias
    assert all(_verdicts(K, ridge, alpha, b, unit * Y).values())
    tampered = alpha.copy()
    tampered[7] += 1e-3 * np.abs(alpha).max()
    verdicts = _verdicts(K, ridge, tampered, b, unit * Y)
    assert not any(verdicts[name] for name in NAMES if name != "duality gap")


def test_the_rows_are_the_formulas(fitted):
    """:equation [Suykens2002]_ (4): each row against the condition written out."""
    K, ridge, _ = fitted
    rng = np.random.default_rng(0)
    alpha, b = rng.normal(size=len(Y)), 0.7
    rows = {row.name: row for row in saddle_rows(K @ alpha, K.diagonal(), Y, ridge, alpha, b)}
    f = K @ alpha + b
    primal = 0.5 * alpha @ K @ alpha + 0.5 * np.sum((Y - f) ** 2 / ridge)
    dual = Y @ alpha - 0.5 * alpha @ K @ alpha - 0.5 * np.sum(ridge * alpha**2)
    assert_allclose(rows["fit equalities"].value, np.linalg.norm(Y - f - ridge * alpha), rtol=1e-12)
    assert_allclose(rows["stationarity in e"].value, np.linalg.norm(ridge * alpha - (Y - f)), rtol=1e-12)
    assert_allclose(rows["1'alpha = 0"].value, abs(alpha.sum()), rtol=1e-12)
    assert_allclose(rows["duality gap"].value, primal - dual, rtol=1e-12)
    assert_allclose(
        rows["backward error"].value, np.hypot(np.linalg.norm(Y - f - ridge * alpha), alpha.sum()), rtol=1e-12
    )
    # the scale of a backward error is never larger than it deserves
    M = np.block([[np.zeros((1, 1)), np.ones((1, len(Y)))], [np.ones((len(Y), 1)), K + np.diag(ridge)]])
    x = np.append(b, alpha)
    assert rows["backward error"].scale <= 2.0 * (np.linalg.norm(M, 2) * np.linalg.norm(x) + np.linalg.norm(Y))


def test_the_unit_is_one_or_a_power_of_two_near_the_largest():
    assert target_unit(np.array([3.0, -1e49])) == 1.0
    assert target_unit(np.zeros(3)) == 1.0
    for size in (1e200, 1e-200, -1e300):
        unit = target_unit(np.array([0.0, size]))
        assert np.frexp(unit)[0] == 0.5
        assert 1.0 <= abs(size) / unit < 2.0


def test_of_several_outputs_the_worst_row_is_kept():
    good, bad = Row("a", 1e-9, 1.0, 1e-6, "r"), Row("a", 1.0, 1.0, 1e-6, "r")
    fine, worse = Row("b", 0.0, 1.0, 1e-6, "s"), Row("b", 1e-8, 1.0, 1e-6, "s")
    kept = worst_rows([(good, worse), (bad, fine)])
    assert [row.value for row in kept] == [1.0, 1e-8]
    assert [row.passes for row in kept] == [False, True]
    assert kept[0].formula == "r, worst of 2 outputs"
    assert worst_rows([(good, fine)]) == (good, fine)
    unknown = Row("a", np.nan, 1.0, 1e-6, "r")
    assert not worst_rows([(good,), (unknown,), (bad,)])[0].passes


def cancelling(n, d, seed):
    """Points in groups far from each other, the last of them alone, and coefficients of which little is left."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, d)) + 4.0 * (np.arange(n) // 100 % 3)[:, None] + 1e6
    a = 1e9 * rng.normal(size=n)
    return points, a - a.mean()


@pytest.mark.parametrize("kernel", [RBF(2.0), Laplacian(2.0)])
def test_products_in_blocks_and_predictions_are_within_their_radius(kernel):
    """Against kernel values and sums in ball arithmetic, at some rows of every strip."""
    flint = pytest.importorskip("flint", reason="products are compared in ball arithmetic")
    from substrate.proof import balls, formula_of, precision

    points, a = cancelling(600, 3, 0)
    gram = Gram.of(kernel, points)
    gram.factorize(np.full(600, 0.1))  # the other triangle holds a factor
    rows = BlockRows.of(gram, points, a, kernel_roots(gram.diagonal), kernel.rounding(points))
    product = rows(Double(a))
    shown = expansion_values(kernel, points, a, 0.0, points)
    with precision(200):
        formula, every = formula_of(kernel, 3), [balls(x) for x in points]
        for i in range(5, 600, 43):
            true = sum((flint.arb(a_j) * formula(every[i], z) for a_j, z in zip(a, every, strict=True)), flint.arb(0))
            for computed in (product.middle, shown):
                assert abs(flint.arb(computed[i]) - true) <= flint.arb(product.radius[i]), i
    plain = kernel.rounding(points) + sum_rounding(600)
    assert product.radius.max() < 0.7 * plain * np.abs(a).sum()


@pytest.mark.parametrize("n", [5, 256, 257, 600])
def test_a_product_in_blocks_is_the_product_before_and_after_a_factor(n):
    points, a = cancelling(n, 2, 1)
    gram, V = Gram.of(RBF(3.0), points), np.stack([a, np.abs(a)], axis=1)
    K = gram.matrix.copy()
    for factored in (False, True):
        if factored:
            gram.factorize(np.full(n, 0.5))
        largest = 2.0 * block_rounding(n) * (K @ np.abs(V)) + 2.0 * sum_rounding(n) * (K @ np.abs(V))
        assert (np.abs(gram.product_in_blocks(V) - K @ V) <= largest).all()


def test_blocks_lose_less_than_one_sum():
    for n in (1, 256, 257, 2000, 10**6):
        assert block_rounding(n) <= sum_rounding(n) * 1.02
        assert block_rounding(n) >= sum_rounding(min(n, block_length(n)))
    assert block_rounding(10**6) < 3e-3 * sum_rounding(10**6)


def answer_of(gamma, tol, gram=True):
    """The answer of one machine on 300 rows, as a fit bounds it."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 5))
    y = np.sin(points[:, 0]) + points[:, 1] ** 2 + 0.1 * rng.normal(size=300)
    matrix = Gram.of(RBF(2.0), points)
    solved = solve_saddle_system(matrix, y, Regularization(gamma).ridge(np.ones(300)))
    question = AnswerProblem(
        kernel=RBF(2.0),
        X=points,
        Y=y[:, None],
        gammas=(gamma,),
        weights=np.ones(300),
        tolerances=tolerances_of(y[:, None], np.ones(300), tol),
    )
    machine = (solved.support_values[:, None], np.atleast_1d(solved.bias), solved.products[:, None], matrix.diagonal)
    return bound_and_refine(question, *machine, matrix if gram else None)


def test_the_cheapest_check_that_settles_the_tolerance_is_the_last():
    coarse = answer_of(1e4, 1e-6)
    half = 0.5 * coarse.rows[0].relative
    middle = answer_of(1e4, half)
    strict = answer_of(1e4, 0.5 * middle.rows[0].relative)
    assert coarse.facts == ()
    assert middle.facts == (("check", "in blocks"),)
    assert middle.rows[0].formula == BLOCK_FORMULA
    assert strict.facts == (("check", "in doubled precision"),)
    assert strict.rows[0].formula == CAREFUL_FORMULA
    assert strict.rows[0].value < middle.rows[0].value < 0.5 * coarse.rows[0].value
    assert all(answer.rows[0].passes for answer in (coarse, middle, strict))
    assert answer_of(1e4, half, gram=False).facts == (("check", "in doubled precision"),)


def test_no_care_is_taken_where_it_cannot_settle_the_tolerance():
    settled = answer_of(1e4, 1e-6).rows[0].relative
    careful, far = answer_of(1e4, 3e-4 * settled), answer_of(1e4, 1e-6 * settled)
    assert careful.rows[0].formula == CAREFUL_FORMULA
    assert far.rows[0].formula == BLOCK_FORMULA
    for answer in (careful, far):
        assert not answer.rows[0].passes
        assert answer.facts[0][0] == "rounding"
