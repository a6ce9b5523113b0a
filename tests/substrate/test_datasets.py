"""Laws of the datasets: what is in them, that they repeat, and what they refuse."""

import csv
import hashlib
import inspect
import math
import re
from collections import Counter
from importlib.resources import files

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import substrate.datasets as datasets
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


def test_every_exported_function_is_under_these_laws():
    assert sorted(load.__name__ for load in SHAPES) == sorted(datasets.__all__)


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


@pytest.mark.parametrize("load", [ripley, pima, ionosphere, tic_tac_toe])
def test_target_names_follow_the_sorted_labels(load):
    bunch = load()
    labels = np.unique(bunch.target)
    assert len(bunch.target_names) == len(labels) == 2
    if labels.dtype.kind == "U":
        assert bunch.target_names == list(labels)
    else:
        assert list(labels) == [0, 1]


def test_the_sunspots_are_yearly_and_peak_in_1957():
    X, y = sunspots()
    assert_array_equal(X[:, 0], np.arange(1700.0, 2009.0))
    assert y.min() == 0.0
    assert X[y.argmax(), 0] == 1957.0
    assert y.max() == 190.2


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


def test_motorcycle():
    X, y = motorcycle()
    assert_allclose(X.mean(), 25.1789, atol=5e-5)
    assert_allclose(y.mean(), -25.5459, atol=5e-5)
    assert_allclose(y.std(ddof=1), 48.3221, atol=5e-5)
    assert len(np.unique(X)) == 94
    assert len(np.unique(np.column_stack([X, y]), axis=0)) == 132
    assert np.abs(y[X[:, 0] < 14]).max() < 6 < np.abs(y).max()


def test_boston():
    bunch = boston()
    assert_allclose(bunch.target.mean(), 22.5328, atol=5e-5)
    assert_allclose(bunch.target.std(ddof=1), 9.1971, atol=5e-5)
    assert (bunch.target == 50.0).sum() == 16
    assert bunch.data[:, bunch.feature_names.index("CHAS")].sum() == 35
    assert bunch.feature_names[11] == "B"
    assert "encodes race" in bunch.DESCR
    assert "benchmark only" in bunch.DESCR


def test_ripley():
    for subset, half in (("train", 125), ("test", 500), ("all", 625)):
        X, y = ripley(subset)
        assert X.shape == (2 * half, 2)
        assert y.dtype == np.int64
        assert Counter(y.tolist()) == {0: half, 1: half}
    assert_array_equal(ripley("all")[0], np.vstack([ripley("train")[0], ripley("test")[0]]))
    assert_array_equal(ripley("all")[1], np.hstack([ripley("train")[1], ripley("test")[1]]))
    bunch = ripley("all")
    assert bunch.filename == "ripley_synth_tr.csv, ripley_synth_te.csv"
    assert bunch.provenance == ripley("test").provenance


def test_pima():
    bunch = pima()
    assert bunch.target.dtype == np.int64
    assert Counter(bunch.target.tolist()) == {0: 500, 1: 268}
    zeros = dict(zip(bunch.feature_names, (bunch.data == 0).sum(axis=0).tolist(), strict=True))
    missing = {"glucose": 5, "pressure": 35, "triceps": 227, "insulin": 374, "mass": 11}
    assert zeros == {"pregnant": 111, **missing, "pedigree": 0, "age": 0}
    assert "Zeros mean missing" in bunch.DESCR


def test_ionosphere():
    X, y = ionosphere()
    assert Counter(y.tolist()) == {"g": 225, "b": 126}
    assert X[:, 0].sum() == 313
    assert not X[:, 1].any()
    assert np.abs(X).max() == 1.0
    assert len(np.unique(X, axis=0)) == 350


@pytest.mark.parametrize("subset", ["training", None, 3, ["train"], np.array(["train", "test"])])
def test_ripley_refuses_other_subsets(subset):
    with pytest.raises(SubstrateError, match=r"subset must be one of 'train', 'test', 'all', received"):
        ripley(subset)


# ---- boards --------------------------------------------------------------------------------------


def test_tic_tac_toe_counts_and_pinned_rows():
    X, y = tic_tac_toe()
    assert Counter(y.tolist()) == {"positive": 626, "negative": 332}
    assert_array_equal(y[:626], "positive")
    digest = hashlib.sha256(X.astype("<f8").tobytes()).hexdigest()
    assert digest == "ba00be8dec2e05e7d244b15d4042ab817285933f5f58498404311e808b1d9bc0"


def test_tic_tac_toe_against_every_game_played_by_recursion():
    finals: dict[tuple[int, ...], int] = {}

    def full_line(board, player):
        rows = np.reshape(board, (3, 3)) == player
        lines = [*rows, *rows.T, rows.diagonal(), rows[:, ::-1].diagonal()]
        return any(line.all() for line in lines)

    seen = set()

    def play(board, player):
        if board in seen:
            return
        seen.add(board)
        for square in range(9):
            if board[square] == 0:
                after = (*board[:square], player, *board[square + 1 :])
                if full_line(after, player):
                    finals[after] = player
                elif 0 not in after:
                    finals[after] = 0
                else:
                    play(after, -player)

    play((0,) * 9, 1)
    X, y = tic_tac_toe()
    boards = [tuple(int(value) for value in row) for row in X]
    assert len(boards) == len(set(boards)) == 958
    assert set(boards) == set(finals)
    outcomes = [finals[board] for board in boards]
    assert outcomes == [1] * 626 + [-1] * 316 + [0] * 16
    assert [label == "positive" for label in y] == [outcome == 1 for outcome in outcomes]
    order = {1: 0, -1: 1, 0: 2}
    ranks = [[order[board_value] for board_value in (finals[board], *board)] for board in boards]
    assert ranks == sorted(ranks)


# ---- drawn ---------------------------------------------------------------------------------------


@drawn
@pytest.mark.parametrize("source", [lambda: 5, lambda: np.random.default_rng(5), lambda: np.random.RandomState(5)])
def test_the_same_random_state_draws_the_same(draw, source):
    first, again = draw(random_state=source()), draw(random_state=source())
    assert_array_equal(first[0], again[0])
    assert_array_equal(first[1], again[1])


@drawn
def test_drawing_leaves_the_global_state_alone(draw):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    draw()
    draw(random_state=0)
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


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


@pytest.mark.parametrize(
    ("draw", "deviation"),
    [
        (lambda: sinc(200_000, 0.1, random_state=0), 0.1),
        (
            lambda: sinc_student(200_000, 9, noise=0.3, random_state=0),
            0.3 * (9 / 7) ** 0.5,
        ),
        (lambda: additive_function(200_000, 4, random_state=0), 1.0),
    ],
    ids=["sinc", "sinc_student", "additive_function"],
)
def test_errors_have_the_stated_mean_and_deviation(draw, deviation):
    bunch = draw()
    error = bunch.target - bunch.noiseless
    assert_allclose(error.mean(), 0.0, atol=5 * deviation / math.sqrt(error.size))
    assert_allclose(error.std(), deviation, rtol=0.02)


@pytest.mark.parametrize("n_outliers", [0, 1, 3, 300])
def test_outliers_are_where_the_bunch_says_and_as_large(n_outliers):
    shape = {"noise": 0.0, "outlier_size": 2.5, "random_state": 8}
    bunch = sinc_outliers(n_outliers=n_outliers, **shape)
    shift = bunch.target - bunch.noiseless
    assert_array_equal(np.flatnonzero(shift), bunch.outliers)
    assert len(bunch.outliers) == n_outliers
    assert_allclose(np.abs(shift[bunch.outliers]), 2.5, rtol=1e-12)


BAD_COUNTS = [0, -3, 2.0, True, "5", None, np.nan]


@drawn
@pytest.mark.parametrize("value", BAD_COUNTS, ids=repr)
def test_n_samples_is_refused(draw, value):
    pattern = r"n_samples must be an integer >= 1, received"
    with pytest.raises(SubstrateError, match=pattern) as caught:
        draw(value)
    assert repr(value) in str(caught.value)
    assert isinstance(caught.value, ValueError)


@drawn
@pytest.mark.parametrize("value", [-1, 1.5, "seed", np.random])
def test_random_state_is_refused(draw, value):
    pattern = r"random_state must be None, a non-negative integer or a generator of numpy"
    with pytest.raises(SubstrateError, match=pattern) as caught:
        draw(random_state=value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("draw", [sinc, sinc_outliers, sinc_student])
@pytest.mark.parametrize("value", [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), (0.0,), 5.0, "ab", (-1e308, 1e308)], ids=repr)
def test_domain_is_refused(draw, value):
    pattern = "domain (must|contains|cannot)"
    with pytest.raises(SubstrateError, match=pattern):
        draw(domain=value)


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
