"""What an export has besides the machine: codings, calibrations, intervals, scales, names; and what it refuses."""

import json

import numpy as np
import pytest
from array_homes import sender
from onnx_graphs import run_onnx
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from problems import LSSVMClassifier, LSSVMRegressor, StackedLSSVMClassifier, TabularRegressor, load
from problems.export import to_onnx
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Categorical, Linear, Polynomial

onnx = pytest.importorskip("onnx", reason='onnx is not installed: pip install ".[onnx]"')


def rows(n=40, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=n)


def three_classes(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.digitize(X[:, 0] + 0.4 * rng.normal(size=n), [-0.5, 0.5])


CODINGS = ["one_vs_rest", "minimum_output", "ecoc"]


@pytest.mark.parametrize("coding", CODINGS)
def test_codings(coding):
    X, y = three_classes()
    labels = np.array(["low", 'm"id', "hö"])[y]
    model = LSSVMClassifier(RBF(1.0), gamma=1.0, coding=coding).fit(X, labels)
    new = np.random.default_rng(1).uniform(X.min(axis=0), X.max(axis=0), size=(30, 2))
    answers = run_onnx(to_onnx(model, precision="float64").content, new)
    np.testing.assert_allclose(answers["scores"], model.decision_function(new), atol=1e-10)
    np.testing.assert_allclose(answers["probabilities"], model.predict_proba(new), atol=1e-10)
    assert answers["label"].tolist() == model.predict(new).tolist()


@pytest.mark.parametrize("labels", [np.array([False, True]), np.array([3, -7]), np.array([2.0, -1.0])], ids=str)
def test_labels_keep_their_kind(labels):
    X, y = rows()
    model = LSSVMClassifier(RBF(1.0)).fit(X, labels[(y > 0.0).astype(int)])
    answers = run_onnx(to_onnx(model).content, X)
    assert answers["label"].dtype.kind == model.predict(X).dtype.kind
    assert answers["label"].tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_scales_are_part_of_the_formula(unit, offset):
    X, y = rows()
    X = (X + offset) * unit
    model = TabularRegressor(kernel="rbf", sigma=1.0, gamma=10.0).fit(X, y)
    export = to_onnx(model)
    assert export.precision == ("float64" if offset else "float32")
    assert export.bound.loss <= 1e-3 * np.std(model.predict(X))
    answers = run_onnx(export.content, X)
    single = X.astype(np.float32).astype(np.float64) if export.precision == "float32" else X
    assert np.abs(answers["prediction"] - model.predict(single)).max() <= export.bound.loss


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2, 1.0), RBF(1.0)], ids=str)
def test_linear_columns(kernel):
    X, y = rows(d=3)
    model = LSSVMRegressor(kernel, 1e2, linear_columns=[1]).fit(X, y + 3.0 * X[:, 1])
    answers = run_onnx(to_onnx(model, precision="float64").content, X)
    np.testing.assert_allclose(answers["prediction"], model.predict(X), atol=1e-8)


@pytest.mark.parametrize("convex", [[0]], ids=str)
def test_a_shape_has_derivatives_of_its_kernel(convex):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(25, 1))
    y = X[:, 0] ** 2 * (1.0 if convex else np.sign(X[:, 0])) + 0.2 * rng.normal(size=25)
    shape = {"convex": convex} if convex else {"monotone": {0: 1}}
    model = LSSVMRegressor(RBF(0.7), gamma=100.0, **shape).fit(X, y)
    export = to_onnx(model, precision="float64")
    new = np.linspace(*export.bound.box[0], 50)[:, None]
    assert np.abs(run_onnx(export.content, new)["prediction"] - model.predict(new)).max() <= 1e-9


def test_names_of_columns_are_kept():
    pandas = pytest.importorskip("pandas")
    X, y = rows()
    frame = pandas.DataFrame(X, columns=["mass", "width"])
    model = LSSVMRegressor(RBF(1.0)).fit(frame, y)
    graph = onnx.load_from_string(to_onnx(model).content)
    assert json.loads({p.key: p.value for p in graph.metadata_props}["inputs"]) == ["mass", "width"]


def test_files_are_written_whole(tmp_path):
    X, y = rows()
    model = LSSVMRegressor(RBF(1.0)).fit(X, y)
    export = to_onnx(model, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == export.content
    with pytest.raises(DataError, match="folder"):
        to_onnx(model, tmp_path / "absent" / "model.onnx")


def test_codes_of_categories_are_exported_in_double_precision():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=40), rng.integers(0, 3, size=40)])
    model = LSSVMRegressor(RBF(1.0).on(0) * Categorical(1.0).on(1), gamma=10.0)
    model.fit(X, X[:, 0] * X[:, 1])
    export = to_onnx(model)
    assert export.precision == "float64"
    np.testing.assert_allclose(run_onnx(export.content, X)["prediction"], model.predict(X), atol=1e-12)
    with pytest.raises(DataError, match="take precision='float64'"):
        to_onnx(model, precision="float32")


def test_what_cannot_be_exported_is_refused():
    X, y = rows()
    with pytest.raises(NotFittedError):
        to_onnx(LSSVMRegressor())
    with pytest.raises(DeclarationError, match="precomputed kernel matrix and knows no inputs"):
        to_onnx(LSSVMRegressor("precomputed").fit(RBF(1.0)(X), y))
    with pytest.raises(DeclarationError, match="no formula of exponentials"):
        to_onnx(LSSVMRegressor(lambda A, B: A @ B.T).fit(X, y))
    with pytest.raises(DeclarationError, match="export its last step"):
        to_onnx(make_pipeline(StandardScaler(), LSSVMRegressor()).fit(X, y))
    with pytest.raises(DeclarationError, match="received a StandardScaler"):
        to_onnx(StandardScaler().fit(X))
    with pytest.raises(DeclarationError, match="isotonic regression are a table"):
        to_onnx(LSSVMClassifier(calibration="isotonic").fit(X, y > 0.0))


def test_a_model_on_a_device_is_taken_to_numpy_first():
    X, y = rows()
    send = sender("array_api_strict")
    model = LSSVMRegressor(RBF(1.0)).fit(send(X), send(y))
    with pytest.raises(DataError, match=r"export model.to_numpy\(\)"):
        to_onnx(model)
    assert to_onnx(model.to_numpy()).content


def test_probabilities_that_need_rows_say_so(tmp_path):
    X, y = rows()
    model = StackedLSSVMClassifier(RBF(1.0)).fit(X, y > 0.0)
    model.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    with pytest.raises(DataError, match="or export without probabilities, probabilities=False"):
        to_onnx(loaded)
    assert to_onnx(loaded, probabilities=False).outputs == ("label", "scores")
    assert "probabilities" not in to_onnx(LSSVMClassifier(calibration=None).fit(X, y > 0.0)).outputs


def test_a_formula_that_differs_from_the_model_is_not_written(monkeypatch):
    """A kind of model that predicts by something else than it expresses is found out before a file is written."""
    X, y = rows()
    model = LSSVMRegressor(RBF(1.0)).fit(X, y)
    monkeypatch.setattr(model, "_evaluate", lambda X: LSSVMRegressor._evaluate(model, X) + 1e-3)
    with pytest.raises(DeclarationError, match="differs from its predictions"):
        to_onnx(model)


def test_a_number_that_overflows_is_refused():
    X, y = rows()
    model = LSSVMRegressor(Polynomial(3)).fit(X, y)
    with pytest.raises((DataError, DeclarationError), match="scale the columns"):
        to_onnx(model, box=[[-1e150, 1e150]] * X.shape[1])
