"""Exponentials of tiles in single precision: right to a few units in the last place, and never where proofs are
built.
"""

import platform

import numpy as np
import pytest

from substrate.compilation import choose_twin, has_compiler, run_interpreted
from substrate.kernels import RBF, Laplacian, Matern, exponentials
from substrate.kernels.exponentials import are_vectors_worth, exponential, exponentiate, vector_exponentials
from substrate.kernels.power_exponential import PowerExponential
from substrate.kernels.tiled_product import tiled_product

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="numba is not installed")

KERNELS = (RBF(1.5), Laplacian(2.0), Matern(1.0, nu=0.5), Matern(1.0, nu=2.5), PowerExponential(1.0, p=2.0, q=1.0))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def compiled_values(exponents):
    values = np.array(exponents, dtype=np.float32)
    choose_twin(exponentiate)(values)
    return values


@pytest.fixture
def every_size(monkeypatch):
    """Take the loop for any number of rows, on any processor."""
    monkeypatch.setattr(exponentials, "_LEAST_ROWS", 0)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")


@needs_compiler
def test_the_loop_is_right_to_a_few_units_in_the_last_place(rng):
    # the product with log2 e is rounded: an error that grows with the exponent, as that of the exponent itself does
    exponents = np.concatenate([-87.0 * rng.random(20_000), -(2.0 ** -rng.uniform(0.0, 60.0, 2_000)), [0.0]])
    exponents = exponents.astype(np.float32)
    exact = np.exp(exponents.astype(np.float64))
    error = np.abs(compiled_values(exponents) - exact) / exact
    assert np.all(error <= 2.0**-24 * (4.0 + 3.0 * np.abs(exponents)))


@needs_compiler
def test_zero_is_one_and_nothing_is_above_it():
    np.testing.assert_array_equal(compiled_values([0.0, -0.0, 1e-6, 5.0, np.inf]), np.ones(5))


@pytest.mark.parametrize("place", ["numpy", "array_api_strict"])
def test_what_rounding_adds_to_zero_is_cut_off_where_it_was_rounded(place):
    xp = pytest.importorskip(place)
    above = xp.asarray([3e-7, 0.0, -1.0], dtype=xp.float32)
    plain, cut = (np.asarray(exponential(+above, is_rounded=rounded)) for rounded in (False, True))
    assert plain[0] > 1.0
    np.testing.assert_array_equal(cut, [1.0, 1.0, plain[2]])


@needs_compiler
def test_what_is_far_is_nothing_and_not_a_number_stays():
    values = compiled_values([-88.0, -1e4, -1e30, -np.inf, np.nan])
    assert np.all(values[:4] >= 0.0)
    assert np.all(values[:4] < 1.2e-38)
    assert np.isnan(values[4])


@needs_compiler
@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 13, 31])
def test_vectors_of_any_length_have_the_values_of_their_entries(length, rng):
    exponents = -30.0 * rng.random(length)
    together = compiled_values(exponents)
    alone = np.concatenate([compiled_values([v]) for v in exponents])
    np.testing.assert_allclose(together, alone, rtol=2.0**-22)


def test_the_function_itself_computes_the_same(rng):
    exponents = (-40.0 * rng.random(50)).astype(np.float32)
    values = exponents.copy()
    exponentiate(values)
    np.testing.assert_allclose(values, np.exp(exponents.astype(np.float64)), rtol=1e-5)


@needs_compiler
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels_in_single_precision_are_the_same(kernel, rng):
    X, Z = rng.standard_normal((40, 3)), rng.standard_normal((30, 3))
    plain = kernel.evaluate(X, Z, np.float32)
    with vector_exponentials(True):
        by_vectors = kernel.evaluate(X, Z, np.float32)
    assert by_vectors.dtype == np.float32
    np.testing.assert_allclose(by_vectors, plain, rtol=1e-5)
    assert np.any(by_vectors != plain)  # it was another computation


@needs_compiler
def test_an_array_of_another_layout_is_not_mixed_up(rng):
    exponents = np.asfortranarray(-5.0 * rng.random((6, 9)).astype(np.float32))
    exact = np.exp(exponents.astype(np.float64))
    with vector_exponentials(True):
        np.testing.assert_allclose(exponential(exponents), exact, rtol=1e-5)
        np.testing.assert_allclose(exponential(np.log(exact).astype(np.float32)[:, ::2]), exact[:, ::2], rtol=1e-5)


@needs_compiler
def test_products_in_single_precision_take_the_loop_and_those_in_double_do_not(every_size, rng):
    X, V = rng.standard_normal((700, 4)), rng.standard_normal((700, 2))
    single, double = (tiled_product(RBF(2.0), X, V, precision) for precision in ("float32", "float64"))
    with run_interpreted():
        plain_single, plain_double = (tiled_product(RBF(2.0), X, V, precision) for precision in ("float32", "float64"))
    np.testing.assert_array_equal(double, plain_double)
    assert np.any(single != plain_single)
    scale = np.abs(double).max()
    np.testing.assert_allclose(single / scale, double / scale, atol=1e-6)
    np.testing.assert_array_equal(single, tiled_product(RBF(2.0), X, V, "float32"))


def test_only_many_rows_and_processors_without_their_own_are_worth_it(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert are_vectors_worth(8192) == has_compiler()
    assert not are_vectors_worth(8191)
    with run_interpreted():
        assert not are_vectors_worth(8192)
    for machine in ("x86_64", "AMD64"):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        assert not are_vectors_worth(10**6)


def test_the_block_ends_with_an_error_too():
    def fails():
        with vector_exponentials(True):
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fails()
    values = np.array([-1.0], dtype=np.float32)
    assert exponential(values)[0] == np.exp(values)[0]
