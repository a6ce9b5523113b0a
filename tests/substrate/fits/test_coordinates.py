"""Coordinates of components: what v stands for, what is cut, what is refused, and the least squares they make."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.errors import DeclarationError
from substrate.fits.coordinates import (
    CUTOFF,
    center,
    decoupled_coordinates,
    raw_coordinates,
    shared_coordinates,
    stacked_directions,
)
from substrate.kernels import RBF, Linear, Polynomial

KERNELS = (RBF(0.7), RBF(3.0), Linear(), Polynomial(degree=2))
over_bias = pytest.mark.parametrize("bias", [True, False])
over_kernels = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def components(kernel, n=14, d=3, seed=0):
    X = np.random.default_rng(seed).uniform(-2.0, 2.0, size=(n, d))
    return [kernel(X[:, [part]]) for part in range(d)]


def target(n=14, seed=0):
    return np.random.default_rng(seed + 100).normal(size=n) + 2.0


def some_v(coordinates, seed=0):
    return np.random.default_rng(seed).normal(size=coordinates.metric.shape[1])


def every_choice(kernel):
    for make in (shared_coordinates, decoupled_coordinates):
        for bias in (True, False):
            for ridge in (0.0, 0.4):
                if make is decoupled_coordinates and ridge == 0.0 and not isinstance(kernel, Linear):
                    continue  # not determined
                yield make(components(kernel), bias, CUTOFF, ridge)


# ---- what v is -----------------------------------------------------------------------------------


@over_bias
@over_kernels
def test_the_stacked_values_of_a_shared_expansion_are_orthonormal(kernel, bias):
    matrices = components(kernel)
    A, rank = stacked_directions(matrices, bias, CUTOFF)
    values = np.vstack(matrices) @ A
    # values of directions at the cut-off carry the rounding of the largest ones, a million times larger
    assert_allclose(values.T @ values, np.eye(rank), atol=1e-8)
    assert A.shape == (14, rank)
    if bias:
        assert_allclose(A.sum(axis=0) / np.abs(A).max(axis=0), 0.0, atol=1e-13)


@over_bias
@over_kernels
def test_no_direction_above_the_cutoff_is_missing(kernel, bias):
    matrices = components(kernel)
    P = np.eye(14) - 1.0 / 14.0 if bias else np.eye(14)
    singular = np.linalg.svd(np.vstack(matrices) @ P, compute_uv=False)
    for cutoff in (1e-2, 1e-4, 1e-6):
        assert stacked_directions(matrices, bias, cutoff)[1] == int((singular > cutoff * singular[0]).sum())


@over_kernels
def test_parts_are_the_components_of_the_expansion(kernel):
    matrices = components(kernel)
    for coordinates in every_choice(kernel):
        v = some_v(coordinates)
        a = coordinates.expand(v)
        each = a.T if coordinates.is_decoupled else [a] * 3
        expected = np.array([K @ own for K, own in zip(matrices, each, strict=True)])
        assert_allclose(coordinates.parts @ v, expected, atol=1e-8 * np.abs(expected).max())
        assert a.shape == ((14, 3) if coordinates.is_decoupled else (14,))


@over_kernels
def test_weights_are_the_norm_of_w(kernel):
    matrices = components(kernel)
    for coordinates in every_choice(kernel):
        if coordinates.ridge == 0.0:
            continue
        v = some_v(coordinates)
        a = coordinates.expand(v)
        each = a.T if coordinates.is_decoupled else [a] * 3
        norm = sum(own @ K @ own for K, own in zip(matrices, each, strict=True))
        assert_allclose(np.sum((coordinates.weights @ v) ** 2), norm, rtol=1e-6)
        step = 1e-5 * np.eye(v.size)
        half = [
            0.5 * coordinates.ridge * np.sum((coordinates.weights @ (v + s * e)) ** 2) for e in step for s in (1, -1)
        ]
        slope = (np.array(half[::2]) - np.array(half[1::2])) / 2e-5
        assert_allclose(coordinates.ridge_gradient(v), slope, atol=1e-6 * np.abs(slope).max())


@over_kernels
def test_metric_and_targets_turn_the_objective_into_a_distance(kernel):
    """Half the squared errors at the best bias plus the ridge = half ||R v - target||^2 + a constant."""
    y = target()
    for coordinates in every_choice(kernel):
        constants = []
        for seed in range(4):
            v = some_v(coordinates, seed)
            e = y - coordinates.parts.sum(axis=0) @ v - coordinates.bias_of(y, v)
            ridge = 0.5 * coordinates.ridge * np.sum((coordinates.weights @ v) ** 2) if coordinates.ridge else 0.0
            distance = 0.5 * np.sum((coordinates.metric @ v - coordinates.targets(y)) ** 2)
            constants.append(0.5 * e @ e + ridge - distance)
            if coordinates.bias:
                assert_allclose(e.sum(), 0.0, atol=1e-10)
        assert_allclose(constants, constants[0], rtol=1e-7, atol=1e-9 * (y @ y))
        assert_allclose(coordinates.metric, np.triu(coordinates.metric))


@over_bias
def test_least_squares_alone_is_the_minimum_norm_fit(bias):
    y = target()
    coordinates = shared_coordinates(components(Linear()), bias)
    v = np.linalg.solve(coordinates.metric, coordinates.targets(y))
    design = np.random.default_rng(0).uniform(-2.0, 2.0, size=(14, 3))
    if bias:
        design = np.column_stack([design, np.ones(14)])
    expected = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    assert_allclose(coordinates.parts.sum(axis=0) @ v + coordinates.bias_of(y, v), expected, atol=1e-9)


def test_raw_coordinates_are_alpha():
    matrices = components(RBF(1.0))
    coordinates = raw_coordinates(matrices, True, 0.5)
    a = some_v(coordinates)
    assert_allclose(coordinates.expand(a), a)
    assert_allclose(coordinates.parts, matrices)
    assert not coordinates.is_balanced
    assert coordinates.cutoff == 0.0
    assert coordinates.record() == (("coordinates", "alpha, uncut"),)


def test_centred():
    V = np.arange(6.0).reshape(3, 2)
    assert_allclose(center(V, True).sum(axis=0), 0.0)
    assert center(V, False) is V


# ---- what is cut, recorded and refused -----------------------------------------------------------


def test_the_record_names_the_cutoff_and_the_ridge():
    facts = dict(shared_coordinates(components(RBF(1.0)), cutoff=1e-3, ridge=0.25).record())
    assert "kept at cut-off 1.0e-03" in facts["coordinates"]
    assert "stacked components" in facts["coordinates"]
    assert facts["ridge"].startswith("0.25/2")
    facts = dict(decoupled_coordinates(components(RBF(1.0)), ridge=0.5).record())
    assert "one expansion per component" in facts["coordinates"]
    assert "ridge" not in dict(shared_coordinates(components(Linear())).record())


def test_a_larger_cutoff_keeps_less():
    ranks = [shared_coordinates(components(RBF(1.0)), cutoff=c).ranks[0] for c in (1e-8, 0.1, 0.5)]
    assert ranks[0] > ranks[1] > ranks[2]
    ranks = [sum(decoupled_coordinates(components(RBF(1.0)), cutoff=c, ridge=1.0).ranks) for c in (1e-8, 1e-4, 1e-1)]
    assert ranks[0] > ranks[1] > ranks[2]


@over_bias
@pytest.mark.parametrize("kernel", [RBF(0.7), RBF(3.0)], ids=repr)
def test_decoupled_components_that_could_take_any_values_are_refused(kernel, bias):
    few = components(kernel, n=8)
    with pytest.raises(DeclarationError, match=r"are not determined by the data: .*add a ridge \(ridge=0.1\)"):
        decoupled_coordinates(few, bias)
    assert decoupled_coordinates(few, bias, ridge=1e-3).metric.shape[0] > 8


def test_decoupled_linear_components_need_more_rows_than_inputs():
    assert decoupled_coordinates(components(Linear(), n=14, d=13)).ranks == (1,) * 13
    with pytest.raises(DeclarationError, match="total rank 14 on 13 free rows"):
        decoupled_coordinates(components(Linear(), n=14, d=14))
    assert decoupled_coordinates(components(Linear(), n=14, d=14), bias=False).ranks == (1,) * 14


def test_two_equal_linear_components_are_not_determined():
    one = components(Linear(), d=1)[0]
    with pytest.raises(DeclarationError, match="not determined"):
        decoupled_coordinates([one, one])
    with pytest.raises(DeclarationError, match="not determined"):
        decoupled_coordinates([one, np.ones((14, 14))])  # a constant is the bias
    assert decoupled_coordinates([one, np.ones((14, 14))], bias=False).ranks == (1, 1)


@over_bias
@pytest.mark.parametrize("make", [shared_coordinates, decoupled_coordinates])
def test_kernels_that_see_nothing(make, bias):
    coordinates = make([np.zeros((5, 5))] * 2, bias)
    y = target(5)
    assert_allclose(coordinates.targets(y), 0.0)
    assert sum(coordinates.ranks) == 0
    assert_allclose(coordinates.expand(np.ones(coordinates.metric.shape[0])), 0.0)


def test_a_constant_matrix_is_no_direction_beside_a_bias():
    assert shared_coordinates([np.ones((6, 6))], True).ranks == (0,)
    assert shared_coordinates([np.ones((6, 6))], False).ranks == (1,)
    beside = shared_coordinates([np.full((14, 14), 0.3), *components(Linear(), d=1)], True)
    assert (beside.parts[0] == 0.0).all(), "not rounding: it vanishes"
    assert shared_coordinates([np.ones((1, 1))], True).ranks == (0,), "one point, nothing but the bias"
