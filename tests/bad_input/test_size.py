"""A matrix that cannot fit into memory is refused before it is allocated, unless the guard is lifted."""

import tracemalloc

import numpy as np
import pytest
from every_model import assert_unfitted, make_data, make_estimator, output, over_kerneled, parameters_of, seeded

from substrate.arrays import memory_limit
from substrate.errors import DataError
from substrate.kernels import Linear
from substrate.reduced import Basis


@over_kerneled
def test_a_matrix_that_cannot_fit_is_refused_before_it_is_allocated(estimator):
    X, y = make_data(estimator, n=3000, columns=1)
    # of the rules that choose a basis, the one that looks at all pairs of candidates and scoring rows
    rules = [{}, {"basis": "feature_vectors"}] if "basis" in parameters_of(estimator) else [{}]
    for rule in rules:
        refuse_a_matrix_too_large(seeded(estimator, kernel=Linear(), **rule), X, y)


def refuse_a_matrix_too_large(model, X, y):
    own = model.get_params(deep=False)
    tracemalloc.start()
    try:
        with memory_limit(1e6), pytest.raises(DataError) as caught:
            model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    held_out = own.get("validation_fraction", 0.0) if own.get("cv") is None else 0.0
    rows = 3000 - int(np.ceil(3000 * held_out))  # the others validate
    # a matrix and its factor, or the values of candidates for a basis, never all pairs
    needed = 8 * Basis().n_candidates * Basis().n_scoring if own.get("basis") is not None else 16 * rows**2
    # where the matrix of all rows has no room, conjugate gradients are tried, whose preconditioner has none either
    size = "bytes" if own.get("solver") == "auto" and own["basis"] is None else f"{needed} bytes"
    for pattern in (
        size,
        "1000000 bytes",
        "available",
        "reduced set",
        "memory_limit",
    ):
        assert caught.match(pattern)
    assert peak < 0.1 * 8 * 3000**2
    assert_unfitted(model)


@over_kerneled
def test_the_memory_guard_can_be_lifted(estimator):
    X, y = make_data(estimator)
    with memory_limit(1.0), memory_limit(float("inf")):
        assert np.isfinite(output(make_estimator(estimator).fit(X, y), X)).all()
    with memory_limit(1.0), pytest.raises(DataError, match="available"):
        make_estimator(estimator).fit(X, y)
