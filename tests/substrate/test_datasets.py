"""Laws of the datasets: what is in them, that they repeat, and what they refuse."""

import csv
import hashlib
import inspect
import math
import re
from importlib.resources import files

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.datasets import (
    additive_function,
    boston,
    ionosphere,
    motorcycle,
    pima,
    ripley,
    sinc,
    sinc_outliers,
    sinc_student,
    sunspots,
    tic_tac_toe,
)
from substrate.errors import SubstrateError

DATA = files("substrate.datasets").joinpath("data")
CSV_NAMES = sorted(item.name for item in DATA.iterdir() if item.name.endswith(".csv"))
DRAWN = [sinc, sinc_outliers, sinc_student, additive_function]
FIXED = [motorcycle, sunspots, boston, ripley, pima, ionosphere, tic_tac_toe]
SHAPES = {
    motorcycle: (133, 1),
    sunspots: (309, 1),
    boston: (506, 13),
    ripley: (250, 2),
    pima: (768, 8),
    ionosphere: (351, 34),
    tic_tac_toe: (958, 9),
    sinc: (100, 1),
    sinc_outliers: (300, 1),
    sinc_student: (300, 1),
    additive_function: (100, 25),
}
named = pytest.mark.parametrize("load", FIXED + DRAWN, ids=lambda load: load.__name__)
drawn = pytest.mark.parametrize("draw", DRAWN, ids=lambda draw: draw.__name__)
fixed = pytest.mark.parametrize("load", FIXED, ids=lambda load: load.__name__)


# ---- every dataset -------------------------------------------------------------------------------


@named
def test_arrays_are_float64_c_ordered_writable_and_finite(load):
    X, y = load()
    assert X.shape == SHAPES[load]
    assert y.shape == (len(X),)
    assert X.dtype == np.float64
    for array in (X, y):
        assert array.flags.c_contiguous
        assert array.flags.writeable
    assert np.isfinite(X).all()


@fixed
def test_a_changed_array_does_not_reach_the_next_call(load):
    X, y = load()
    X_before, y_before = X.copy(), y.copy()
    X[:] = -7.0
    y[:] = y[::-1].copy()
    X_after, y_after = load()
    assert_array_equal(X_after, X_before)
    assert_array_equal(y_after, y_before)


@named
def test_a_dataset_is_the_pair_with_the_facts(load):
    kwargs = {"random_state": 3} if load in DRAWN else {}
    X, y = load(**kwargs)
    bunch = load(**kwargs)
    assert_array_equal(bunch.data, X)
    assert_array_equal(bunch.target, y)
    assert len(bunch.feature_names) == len(set(bunch.feature_names)) == X.shape[1]
    assert inspect.getdoc(load) == bunch.DESCR
    assert bunch.target_name
    key = re.match(r"\[(\w+\d{4})\] ", bunch.citation)
    assert key is not None
    assert f"[{key[1]}]" in bunch.DESCR
    if bunch.filename is None:
        assert bunch.provenance.startswith("Generated")
    else:
        assert DATA.joinpath(bunch.filename).is_file()
        assert f"Cite: [{key[1]}]." in bunch.provenance
        assert "Source:" in bunch.provenance


# ---- embedded tables -----------------------------------------------------------------------------


def test_files_match_the_sums_on_the_provenance_page():
    page = DATA.joinpath("PROVENANCE.md").read_text(encoding="utf-8")
    stated = dict(re.findall(r"^\| (\w+\.csv) \| [\dx ]+ \| ([0-9a-f]{64}) \|$", page, re.MULTILINE))
    found = {name: hashlib.sha256(DATA.joinpath(name).read_bytes()).hexdigest() for name in CSV_NAMES}
    assert len(found) == 7
    assert found == stated


@pytest.mark.parametrize("name", CSV_NAMES)
def test_files_have_the_size_on_the_provenance_page(name):
    page = DATA.joinpath("PROVENANCE.md").read_text(encoding="utf-8")
    rows = list(csv.reader(DATA.joinpath(name).read_text(encoding="utf-8").splitlines()))
    assert f"| {name} | {len(rows) - 1} x {len(rows[0])} |" in page
    assert {len(row) for row in rows} == {len(rows[0])}
    assert all(cell for row in rows for cell in row)


# ---- drawn ---------------------------------------------------------------------------------------


@drawn
@pytest.mark.parametrize("source", [lambda: 5, lambda: np.random.default_rng(5), lambda: np.random.RandomState(5)])
def test_the_same_random_state_draws_the_same(draw, source):
    first, again = draw(random_state=source()), draw(random_state=source())
    assert_array_equal(first[0], again[0])
    assert_array_equal(first[1], again[1])


@pytest.mark.parametrize("draw", [lambda **kw: sinc_outliers(n_outliers=0, **kw), sinc, sinc_student])
@pytest.mark.parametrize("domain", [(-5.0, 5.0), (2, 3.5), [-1e-3, 0.0]])
def test_sinc_without_noise_against_the_formula(draw, domain):
    X, y = draw(noise=0.0, domain=domain, random_state=1)
    naive = [math.sin(math.pi * x) / (math.pi * x) if x != 0.0 else 1.0 for (x,) in X.tolist()]
    assert_allclose(y, naive, rtol=1e-13, atol=1e-15)
    assert domain[0] <= X.min() < X.max() <= domain[1]
    assert X.max() - X.min() > 0.9 * (domain[1] - domain[0])


@pytest.mark.parametrize("n_features", [4, 7, 25])
def test_additive_function_without_noise_against_a_loop(n_features):
    """:equation [Pelckmans2005]_ (31): against the formula, row by row."""
    X, y = additive_function(60, n_features, 0.0, random_state=1)
    naive = [10 * math.sin(row[0]) + 20 * (row[1] - 0.5) ** 2 + 10 * row[2] + 5 * row[3] for row in X.tolist()]
    assert_allclose(y, naive, rtol=1e-14)
    assert X.shape == (60, n_features)
    assert 0.0 <= X.min() < X.max() <= 1.0


BAD_COUNTS = [0, -3, 2.0, True, "5", None, np.nan]


@drawn
@pytest.mark.parametrize("value", BAD_COUNTS, ids=repr)
def test_n_samples_is_refused(draw, value):
    pattern = r"n_samples must be an integer >= 1, received"
    with pytest.raises(SubstrateError, match=pattern) as caught:
        draw(value)
    assert repr(value) in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("call", "pattern"),
    [
        (
            lambda: additive_function(n_features=3),
            r"n_features must be an integer >= 4, received 3",
        ),
        (
            lambda: sinc_outliers(5, n_outliers=6),
            r"n_outliers must be at most n_samples=5, received 6",
        ),
        (lambda: sinc_outliers(n_outliers=-1), r"n_outliers must be .* received -1"),
        (lambda: sinc_outliers(n_outliers=1.0), r"n_outliers must be .* received 1\.0"),
        (lambda: sinc_outliers(outlier_size=-2), r"outlier_size must be .* received -2"),
        (
            lambda: sinc_student(df=0.5),
            r"df must be at least 1, Cauchy's law, received 0\.5",
        ),
        (lambda: sinc_student(df=np.inf), r"df must be a finite number >= 0, received inf"),
    ],
)
def test_particular_arguments_are_refused(call, pattern):
    with pytest.raises(SubstrateError, match=pattern):
        call()
