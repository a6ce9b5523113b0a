"""Frames in, predictions out: the tabular estimators are the command line in Python."""

import csv

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler

import problems
from problems import TabularClassifier, TabularRegressor, load
from problems.command_line.main import main
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Categorical

#: No search: these tests are about tables.
QUICK = {"kernel": "rbf", "gamma": 10.0, "sigma": 2.0}


def make_columns(n=60, seed=0):
    rng = np.random.default_rng(seed)
    columns = {
        "area": rng.uniform(40.0, 160.0, n),
        "rooms": rng.integers(1, 6, n),
        "heating": rng.choice(["gas", "oil", "wood"], n),
        "grade": rng.choice(["bad", "fair", "good"], n),
    }
    ranks = np.array([["bad", "fair", "good"].index(grade) for grade in columns["grade"]])
    price = 2.0 * columns["area"] + 10.0 * columns["rooms"] + 20.0 * ranks + rng.normal(size=n)
    return columns, price


def make_frame(kind, n=60):
    columns, price = make_columns(n)
    order = ["bad", "fair", "good"]
    if kind == "pandas":
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(columns)
        frame["heating"] = frame["heating"].astype("category")
        frame["grade"] = pandas.Categorical(frame["grade"], categories=order, ordered=True)
        return frame, price
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({name: values.tolist() for name, values in columns.items()})
    return frame.with_columns(
        polars.col("heating").cast(polars.Categorical), polars.col("grade").cast(polars.Enum(order))
    ), price


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_frame_is_the_machine_of_its_numbers(kind):
    """Categories as 0 and 1, numbers standardised: by hand, and bit for bit."""
    columns, price = make_columns()
    frame, _ = make_frame(kind)
    dummies = [(columns["heating"] == name).astype(float) for name in ("gas", "oil", "wood")]
    dummies += [(columns["grade"] == name).astype(float) for name in ("bad", "fair", "good")]
    X = np.column_stack([columns["area"], columns["rooms"], *dummies])
    X[:, :2] = StandardScaler().fit_transform(X)[:, :2]
    plain = problems.LSSVMRegressor(RBF(2.0), 10.0).fit(X, price)
    model = TabularRegressor(**QUICK).fit(frame, price)
    np.testing.assert_array_equal(model.predict(frame), plain.predict(X))
    np.testing.assert_array_equal(model.predict_interval(frame), plain.predict_interval(X))
    assert model.interval_guarantee().method == "conformal"
    adaptive = model.predict_interval(frame, method="adaptive")
    np.testing.assert_array_equal(adaptive, plain.predict_interval(X, method="adaptive"))
    assert model.interval_guarantee(method="adaptive").method == "adaptive"
    assert model.certificate_ == plain.certificate_
    assert model.certify(frame, price).holds


def test_the_file_is_that_of_the_command_line_and_the_other_way_round(tmp_path):
    columns, price = make_columns()
    table, out, by_command = tmp_path / "houses.csv", tmp_path / "model.npz", tmp_path / "command.npz"
    with table.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*columns, "price"])
        writer.writerows(zip(*(values.tolist() for values in columns.values()), price.tolist(), strict=True))
    model = TabularRegressor(**QUICK).fit(str(table), "price")
    model.save(out)
    assert main(["predict", str(out), str(table), "--out", str(tmp_path / "p.csv")]) == 0
    with (tmp_path / "p.csv").open() as stream:
        written = [float(row["prediction"]) for row in csv.DictReader(stream)]
    np.testing.assert_array_equal(written, model.predict(columns))
    line = ["--kernel", "rbf", "--gamma", "10", "--sigma", "2", "--validation", "0", "--quiet"]
    assert main(["fit", str(table), "--target", "price", "--out", str(by_command), *line]) == 0
    loaded = load(by_command)
    np.testing.assert_array_equal(loaded.predict(columns), model.predict(columns))
    assert loaded.certificate_ == model.certificate_
    assert loaded.score(str(table), "price") == model.score(columns, price) > 0.99
    assert isinstance(loaded, TabularRegressor)


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [1, 3], [1.0, 2.0]], ids=str)
def test_labels_come_back_as_they_were_given(labels):
    columns, price = make_columns()
    y = np.array(labels)[(price > np.median(price)).astype(int)]
    model = TabularClassifier(**QUICK).fit(columns, y)
    assert model.classes_.tolist() == labels
    assert model.predict(columns).dtype == np.array(labels).dtype
    assert model.score(columns, y) > 0.9
    probabilities = model.predict_proba(columns)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert ((probabilities[:, 1] > 0.5) == (model.decision_function(columns) > 0.0)).mean() > 0.9
    assert model.predict_set(columns, 0.9).shape == (60, 2)


def test_it_has_the_manners_of_scikit_learn():
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = X[:, 0] + 0.1 * X[:, 1]
    model = TabularRegressor(**QUICK)
    assert clone(model).get_params() == model.get_params()
    assert cross_val_score(model, X, y, cv=3).min() > 0.5
    model.fit(X, y)
    with pytest.raises(DataError, match="X has 2 features, but TabularRegressor is expecting 3"):
        model.predict(X[:, :2])
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    assert "standardised" in str(model.interval_guarantee())


@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        (np.ones(4), np.ones(4), DataError, "must have rows and columns"),
        ({"a": [1.0, 2.0], "b": [1.0]}, [1.0, 2.0], DataError, "must be of one length"),
        ({"a": [1.0, 2.0, 3.0]}, [1.0, 2.0], DataError, "one value for each of the 3 rows"),
        ({"a": [1.0, 2.0, 3.0]}, [1.0, None, 3.0], DataError, "y has no value in row 2"),
        ({"a": [1.0, 2.0, 3.0]}, "b", DataError, "has no column 'b'"),
        ({"a": [1.0, 2.0, 3.0]}, None, DataError, "needs y"),
        ({"a": [1.0, float("inf"), 3.0]}, [1.0, 2.0, 3.0], DataError, "row 2 has 'inf'"),
        ({}, [], DataError, "no columns"),
    ],
)
def test_bad_frames_are_refused_in_words(X, y, error, message):
    with pytest.raises(error, match=message):
        TabularRegressor(**QUICK).fit(X, y)


def test_parameters_that_are_none_are_refused():
    columns, price = make_columns(20)
    with pytest.raises(DataError, match="the target 'price' cannot be left out"):
        TabularRegressor(drop=["price"], **QUICK).fit({**columns, "price": price}, "price")
    with pytest.raises(DataError, match="unknown must be one of refuse, ignore"):
        TabularRegressor(unknown="skip", **QUICK).fit(columns, price).predict(columns)


def test_categories_by_a_kernel_of_their_own(tmp_path):
    """One column of codes each, times the kernel of the numbers; an unknown one is unlike all others."""
    columns, price = make_columns()
    model = TabularRegressor(categorical="kernel", **QUICK).fit(columns, price)
    assert model.preparation_.features == ("area", "rooms", "heating", "grade")
    codes = [np.unique(columns[name], return_inverse=True)[1].astype(float) for name in ("heating", "grade")]
    numbers = np.column_stack([columns["area"], columns["rooms"]])
    X = np.column_stack([numbers, *codes])
    X[:, :2] = StandardScaler().fit_transform(X)[:, :2]
    kernel = RBF(2.0).on(0, 1) * Categorical("each").on(2, 3)
    plain = problems.LSSVMRegressor(kernel, 10.0).fit(X, price)
    np.testing.assert_array_equal(model.predict(columns), plain.predict(X))
    assert model.certify(columns, price).holds
    model.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz").set_params(unknown="ignore")
    new = {name: values[:1] for name, values in columns.items()} | {"heating": ["coal"]}
    X[0, 2] = -1.0
    np.testing.assert_array_equal(loaded.predict(new), plain.predict(X[:1]))
    searched = TabularRegressor(categorical="kernel", max_evaluations=3).fit(columns, price)
    assert "Categorical" in repr(searched.estimator_.kernel_)
    assert searched.certificate_.holds
    with pytest.raises(DeclarationError, match="categorical='kernel' is for model='lssvm' and 'sparse'"):
        TabularRegressor("stack", categorical="kernel").fit(columns, price)
    with pytest.raises(DataError, match="categorical must be one of one-hot, kernel"):
        TabularRegressor(categorical="hash").fit(columns, price)


def test_a_basis_grows_while_its_left_out_error_falls():
    """Waves of a product need more vectors than a slow one; a number of vectors that is given stays."""
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (1600, 2))
    noise = 0.05 * np.random.default_rng(1).normal(size=1600)
    for frequency, n_basis, size in ((9.0, None, 600), (2.0, 200, 200), (2.0, None, 300)):
        y = np.sin(1.3 * frequency * X[:, 0]) * np.cos(frequency * X[:, 1]) + noise
        model = TabularRegressor("sparse", kernel="laplacian", sigma=1.0, n_basis=n_basis, validation=0.25).fit(X, y)
        assert model.judged_.machine.basis_indices_.size == size, frequency
        assert model.estimator_.basis_indices_.size == size, frequency


@pytest.mark.parametrize("n_rows", [60, 1200])
def test_the_time_ends_a_search_and_the_model_says_so(n_rows):
    columns, price = make_columns(n_rows)
    model = "lssvm" if n_rows == 60 else "sparse"
    short, free = TabularRegressor(model, seconds=1e-3), TabularRegressor(model, max_evaluations=8)
    words = [each.fit(columns, price).judged_.search.describe(each.judged_.machine) for each in (short, free)]
    assert words[0].endswith("ended by the time given")
    assert "time" not in words[1]
    assert short.estimator_.certificate_.holds
    assert short.quality_.measures[0].value < short.quality_.measures[0].baseline


def test_a_time_that_is_none_or_cannot_be_kept_is_refused():
    columns, price = make_columns()
    with pytest.raises(DeclarationError, match=r"seconds must be positive and finite, received 0\.0"):
        TabularRegressor(seconds=0.0).fit(columns, price)
    with pytest.raises(DeclarationError, match="model='stack' fits all machines; with seconds"):
        TabularRegressor("stack", seconds=5.0).fit(columns, price)


def test_a_weight_of_a_class_that_no_row_has_is_refused():
    columns, _ = make_columns()
    with pytest.raises(DeclarationError, match="class_weight names the class 'blue'; the classes are bad, fair, good"):
        TabularClassifier(class_weight={"blue": 2.0}, **QUICK).fit(columns, "grade")
