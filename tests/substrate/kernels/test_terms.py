"""Terms of a sum: their factors, shares and relevances."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix

from substrate.errors import DeclarationError
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial, Symmetric
from substrate.kernels.terms import relevance_of, spreads_of, term_shares

X = np.random.default_rng(4).normal(size=(40, 3))


def no_slopes(number):
    raise AssertionError


def relevance(kernel, points=X):
    return relevance_of(kernel, points, no_slopes)


@pytest.mark.parametrize(
    ("kernel", "terms"),
    [
        (RBF(1.0), ((1.0, RBF(1.0)),)),
        (2.0 * RBF(1.0) + Linear(), ((2.0, RBF(1.0)), (1.0, Linear()))),
        (2.0 * (RBF(1.0) + 3.0 * Linear()).on(1, 0), ((2.0, RBF(1.0).on(1, 0)), (6.0, Linear().on(1, 0)))),
        (Symmetric(RBF(1.0) + 0.0 * Linear()), ((1.0, Symmetric(RBF(1.0))), (0.0, Symmetric(Linear())))),
        ((RBF(1.0) + Linear()) * RBF(2.0), ((1.0, RBF(1.0) * RBF(2.0)), (1.0, Linear() * RBF(2.0)))),
        (Componentwise([RBF(1.0), 3.0 * Linear()]), ((1.0, RBF(1.0).on(0)), (3.0, Linear().on(1)))),
    ],
    ids=str,
)
def test_terms_of_a_kernel_add_up_to_it(kernel, terms):
    assert kernel.terms(3) == terms
    assert_allclose(sum(factor * term(X) for factor, term in terms), kernel(X), rtol=1e-5)


def test_shares_are_those_of_centred_traces():
    kernel = 2.0 * RBF(1.0) + Linear() + 0.0 * Linear() + Polynomial(1, 1e6)
    centre = np.eye(40) - 1.0 / 40.0
    traces = [factor * np.trace(centre @ term(X) @ centre) for factor, term in kernel.terms(3)]
    assert_allclose(term_shares(kernel, X), traces / np.sum(traces), atol=1e-9)
    assert_allclose(term_shares(kernel, csr_matrix(X)), term_shares(kernel, X))


def test_a_constant_term_has_no_share():
    constant = np.full((10, 3), 0.1)
    assert_array_equal(term_shares(RBF(1.0) + RBF(1.0).on(0), constant), 0.0)
    assert_array_equal(relevance(RBF(1.0) + RBF(1.0).on(0), constant), 0.0)


@pytest.mark.parametrize("kind", [RBF, Laplacian, Matern])
def test_relevances_are_inverse_widths_in_units_of_the_spread(kind):
    spread = X.std(axis=0)
    found = relevance(kind((1.0, 2.0, 4.0)))
    assert_allclose(found, spread / [1.0, 2.0, 4.0] / np.sum(spread / [1.0, 2.0, 4.0]))
    assert_allclose(relevance(kind(3.0)), spread / spread.sum())
    units = np.array([1e-12, 1e12, 1.0])
    assert_allclose(relevance(kind(tuple(units * [1.0, 2.0, 4.0])), X * units + 1e3 * units), found, rtol=1e-9)
    assert_allclose(relevance(kind("each").resolved(X)), 1.0 / 3.0, rtol=1e-9)


def test_relevances_of_made_kernels():
    s = X.std(axis=0)
    assert_allclose(relevance(RBF(2.0).on(2, 0)), np.array([s[0], 0.0, s[2]]) / (s[0] + s[2]))
    product = RBF((1.0, 2.0, 4.0)) * RBF((1.0, 1.0, 1.0))
    together = RBF(tuple((1.0 / np.square([1.0, 2.0, 4.0]) + 1.0) ** -0.5))  # the same function
    assert_allclose(product(X), together(X))
    assert_allclose(relevance(product), relevance(together))
    total = RBF(1.0).on(0) + 3.0 * RBF(1.0).on(1)
    assert_allclose(relevance(total), [*term_shares(total, X), 0.0])
    pairs = Componentwise([RBF(1.0), RBF(1.0), RBF(1.0)], order=2)
    assert relevance(pairs).sum() == pytest.approx(1.0)
    assert_allclose(relevance(total * RBF(1e9)), relevance(total), atol=1e-8)
    additive = Componentwise(RBF(1.0))
    assert_allclose(relevance(additive * RBF(1e9)), relevance(additive), rtol=1e-8)
    assert_array_equal(relevance(Symmetric(RBF(2.0))), relevance(RBF(2.0)))


def test_a_constant_column_is_exactly_irrelevant():
    points = np.column_stack([X[:, 0], np.full(40, 0.1), np.full(40, 1e8 + 0.1)])
    for given in (points, csr_matrix(points)):
        assert_array_equal(spreads_of(given)[1:], 0.0)
        assert_array_equal(relevance(RBF("each").resolved(points), given), [1.0, 0.0, 0.0])
    assert_allclose(spreads_of(csr_matrix(X * (X > 0.5))), (X * (X > 0.5)).std(axis=0))
    assert_allclose(spreads_of(1e200 * X), 1e200 * X.std(axis=0))


def test_slopes_stand_for_the_widths_of_a_linear_term():
    found = relevance_of(2.0 * Linear(), X, lambda number: np.array([1.0, -2.0, 0.0]))
    assert_allclose(found, [X[:, 0].std(), 2.0 * X[:, 1].std(), 0.0] / (X[:, 0].std() + 2.0 * X[:, 1].std()))


def test_a_kernel_without_widths_is_refused():
    with pytest.raises(DeclarationError, match=r"Polynomial\(degree=2, offset=1.0\) has no widths"):
        relevance(RBF(1.0) + Polynomial(2))
