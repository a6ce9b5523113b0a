"""The report on the products (27e,f): all of them, and a verdict that a wrong point cannot get."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.errors import DataError, DeclarationError
from substrate.ingredients import complementary_slackness

VALUES, T = np.array([[1.0, -1.0, 0.5], [0.0, 2.0, -2.0]]), np.array([1.0, 2.0])
MINUS, PLUS = np.array([[0.0, 0.3, 0.0], [0.0, 0.0, 0.4]]), np.array([[0.2, 0.0, 0.0], [0.0, 0.1, 0.0]])


def test_a_trained_point_holds():
    report = complementary_slackness(VALUES, T, MINUS, PLUS)
    assert report.sum == report.largest == 0.0
    assert report.holds
    assert report.products.size == 12
    assert report.size == pytest.approx(0.5 * 1.0 + 0.5 * 2.0)
    assert report.verdict.startswith("complementary slackness holds: 12 products")
    assert str(report) == report.verdict


def test_the_hand_example_of_fusion_fails():
    """The optimum of (29) at weight 1: a = (1.25, -1.25), rho = 0.5, products 1.25 together."""
    report = complementary_slackness([[1.25, -1.25]], [1.25], [[0.25, 0.0]], [[0.0, 0.25]])
    assert_allclose(report.lower, [[0.625, 0.0]])
    assert_allclose(report.upper, [[0.0, 0.625]])
    assert report.largest == 0.625
    assert report.sum == 1.25
    assert not report.holds
    assert "fails: 4 products, the largest 0.625, together 1.25 against 0.625" in report.verdict
    assert "not trained at this weight" in report.verdict
    assert not report.row().passes


def test_a_changed_value_shows_where_it_has_a_multiplier_and_a_changed_multiplier_where_there_is_slack():
    slack = T[:, None] + VALUES, T[:, None] - VALUES
    harmless = ((MINUS == 0.0) & (PLUS == 0.0), T < 0.0, slack[0] == 0.0, slack[1] == 0.0)
    for part, spared in enumerate(harmless):
        for index in np.ndindex(spared.shape):
            given = [np.array(one) for one in (VALUES, T, MINUS, PLUS)]
            given[part][index] += 0.1
            assert complementary_slackness(*given).holds == spared[index], f"part {part}, entry {index}"


def test_negative_products_count_too():
    report = complementary_slackness([[2.0]], [1.0], [[0.0]], [[1.0]])
    assert report.products.min() == -1.0
    assert report.sum == 1.0
    assert not report.holds


def test_the_size_can_be_given():
    report = complementary_slackness([[0.9]], [1.0], [[0.0]], [[1e-3]], size=1e4)
    assert report.size == 1e4
    assert report.holds
    assert not complementary_slackness([[0.9]], [1.0], [[0.0]], [[1e-3]], size=1e4, tolerance=1e-12).holds


def test_refusals():
    with pytest.raises(DataError, match="a row per entry of t"):
        complementary_slackness(VALUES, T[:1], MINUS, PLUS)
    with pytest.raises(DataError, match="a row per entry of t"):
        complementary_slackness(VALUES, T, MINUS[:, 1:], PLUS)
    with pytest.raises(DataError, match=r"xi_plus.*NaN"):
        complementary_slackness(VALUES, T, MINUS, np.full((2, 3), np.nan))
    with pytest.raises(DeclarationError, match="size must be"):
        complementary_slackness(VALUES, T, MINUS, PLUS, size=-1.0)
