"""The verbs of rounding are true of the operations they are named by, and nobody counts in EPS elsewhere."""

import inspect
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from substrate import numbers
from substrate.numbers import (
    exponential_rounding,
    relative_rounding,
    subtract_below,
    sum_rounding,
)

ROOT = Path(__file__).resolve().parents[2]
#: The file where the number is read from numpy, and counted in.
ROOM = ("substrate/numbers.py",)


@pytest.mark.parametrize("written", [r"\bEPS\b", r"finfo\([^)]*\)\.eps\b"])
def test_eps_is_written_in_one_room(written):
    found = [
        path
        for top in ("substrate", "problems")
        for file in sorted((ROOT / top).rglob("*.py"))
        if not (path := file.relative_to(ROOT).as_posix()).startswith(ROOM) and re.search(written, file.read_text())
    ]
    assert found == []


def test_every_verb_states_its_theory():
    for name in numbers.__all__:
        verb = getattr(numbers, name)
        assert not inspect.isfunction(verb) or len(verb.__doc__) > 60


def exact(values):
    return [Fraction(float(value)) for value in values]


@pytest.mark.parametrize("k", [1, 2, 7, 50, 400])
def test_sums_of_products_lose_no_more(k):
    rng = np.random.default_rng(k)
    for _ in range(20):
        a, b = rng.normal(size=k) * 10.0 ** rng.uniform(-8, 8, k), rng.normal(size=k)
        terms = [x * y for x, y in zip(exact(a), exact(b), strict=True)]
        size = sum(abs(term) for term in terms)
        lost = abs(Fraction(float(a @ b)) - sum(terms))
        assert lost <= Fraction(sum_rounding(k)) * size <= Fraction(relative_rounding(k)) * size


def test_a_row_of_operations_changes_no_more():
    rng = np.random.default_rng(0)
    for k in (1, 5, 40):
        factors = rng.uniform(0.5, 2.0, size=k + 1)
        found, true = factors[0], Fraction(float(factors[0]))
        for factor in factors[1:]:
            found, true = found * factor, true * Fraction(float(factor))
        assert abs(Fraction(float(found)) / true - 1) <= Fraction(relative_rounding(k))


def test_an_exponential_damps_the_error_of_its_argument():
    t = np.linspace(0.0, 50.0, 2001)
    for operations in (1, 10, 100):
        theta = operations * 2.0**-53
        moved = np.abs(np.expm1(-t * theta)) * np.exp(-t)
        assert moved.max() <= exponential_rounding(operations, 0.0)


def test_a_cholesky_factorisation_that_succeeds_leaves_this_open():
    n, rng = 30, np.random.default_rng(3)
    for _ in range(20):
        Q, _ = np.linalg.qr(rng.normal(size=(n, n)))
        A = (Q * np.append(-(10.0 ** rng.uniform(-18, -13)), rng.uniform(0.5, 1.0, n - 1))) @ Q.T
        A = (A + A.T) / 2.0
        try:
            np.linalg.cholesky(A)
        except np.linalg.LinAlgError:
            continue
        assert np.linalg.eigvalsh(A)[0] >= -relative_rounding(5.0 * n + 2.0) * np.trace(A)


def test_a_difference_is_never_above_the_exact_one():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        h, s, d = rng.normal(size=3) * 10.0 ** rng.uniform(-8.0, 8.0, size=3)
        if rng.uniform() < 0.5:  # nearly equal
            h = s * d * (1.0 + 4.0 * np.finfo(float).eps * rng.normal())
        exact = Fraction(float(h)) - Fraction(float(s)) * Fraction(float(d))
        found = subtract_below(float(h), float(s * d))
        assert Fraction(found) <= exact
        assert float(exact - Fraction(found)) <= 16.0 * np.finfo(float).eps * (abs(h) + abs(s * d))
