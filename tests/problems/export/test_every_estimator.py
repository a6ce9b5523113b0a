"""Every estimator of the package exports, and agrees with its export, or refuses in a sentence that says what to do."""

import numpy as np
import pytest
from every_model import ESTIMATORS, TYPICAL, make_data, make_estimator, output, way_in_words
from kernel_examples import EXAMPLES
from onnx_graphs import run_onnx
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

import problems
from problems import LSSVMRegressor, TabularClassifier, TabularRegressor
from problems.export import to_onnx
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Categorical, CurlFree, DivergenceFree, Foreign, Precomputed

#: Names of the package that are no estimators, and those that are exported once they are fitted.
NOT_ESTIMATORS = {"Robust", "windowize", "TabularClassifier", "TabularRegressor"}
WALK = [(estimator, {}) for estimator in ESTIMATORS] + TYPICAL
#: The kernels without a formula: given by values, and of vector fields.
WITHOUT = (Precomputed, Foreign, CurlFree, DivergenceFree)
EVERY = [example for examples in EXAMPLES.values() for example in examples]
WITH_FORMULA = [
    e for e in EVERY if not isinstance(e.kernel, WITHOUT) and not isinstance(getattr(e.kernel, "kernel", None), WITHOUT)
]
over_walk = pytest.mark.parametrize(("estimator", "choice"), WALK, ids=way_in_words)

pytest.importorskip("onnx", reason='onnx is not installed: pip install ".[onnx]"')


def fit(estimator, choice):
    X, y = make_data(estimator, n=18)
    with np.errstate(all="ignore"):
        return make_estimator(estimator, **choice).fit(X, y)


def new_rows(export, seed=1, n=40):
    """Rows of the box of an export, some of them in corners."""
    box, rng = export.bound.box, np.random.default_rng(seed)
    X = rng.uniform(box[:, 0], box[:, 1], size=(n, len(box)))
    X[: n // 4] = np.where(rng.random((n // 4, len(box))) < 0.5, box[:, 0], box[:, 1])
    kind = np.float32 if export.precision == "float32" else np.float64
    return X.astype(kind).astype(np.float64)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("precision", ["float32", "float64"])
@over_walk
def test_onnxruntime_agrees_with_every_estimator(estimator, choice, precision):
    model = fit(estimator, choice)
    export = to_onnx(model, precision=precision)
    X = new_rows(export)
    answers = run_onnx(export.content, X)
    expected, size = output(model, X), max(np.abs(export.bound.highs).max(), np.abs(export.bound.lows).max())
    # rows that single precision holds: what is left is the arithmetic, and the rounding of predict itself
    allowed = export.bound.loss + 1e-12 * size
    name = "scores" if is_classifier(model) else "prediction"
    assert answers[name].shape == expected.shape
    assert np.abs(answers[name] - expected).max() <= allowed
    if is_classifier(model):
        sure = np.abs(expected) > allowed
        assert sure.any()
        assert (answers["label"] == model.predict(X))[sure].all()
        # a map of the calibration is steep where classes are far apart
        np.testing.assert_allclose(answers["probabilities"][sure], model.predict_proba(X)[sure], atol=1e3 * allowed)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.covering
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("example", WITH_FORMULA, ids=str)
def test_onnxruntime_agrees_with_every_kernel(example, precision):
    Z = example.points(12)
    model = LSSVMRegressor(example.kernel, gamma=3.0).fit(Z, np.random.default_rng(2).normal(size=12))
    if precision == "float32" and isinstance(example.kernel, Categorical):
        with pytest.raises(
            DataError, match="float32 cannot represent its numbers, or confuses them; take precision='float64'"
        ):
            to_onnx(model, precision=precision)
        return
    export = to_onnx(model, precision=precision)
    X = np.vstack([new_rows(export), Z[:4].astype(export.precision)])
    size = max(np.abs(export.bound.highs).max(), np.abs(export.bound.lows).max())
    found = run_onnx(export.content, X)["prediction"]
    assert np.abs(found - model.predict(X)).max() <= export.bound.loss + 1e-12 * size


@pytest.mark.parametrize("kernel", [rbf_kernel, 2.0 * Foreign(rbf_kernel)], ids=["function", "multiple"])
def test_a_kernel_without_a_formula_is_refused(kernel):
    model = LSSVMRegressor(kernel).fit(np.eye(5), np.arange(5.0))
    with pytest.raises(DeclarationError, match=r"has no formula of exponentials.*fit with RBF, Laplacian"):
        to_onnx(model)


@pytest.mark.parametrize("name", sorted({*problems.COMPOSED, *problems.SPECTRAL} - NOT_ESTIMATORS))
def test_what_has_no_formula_says_what_to_do(name):
    with pytest.raises(DeclarationError, match=rf"{name} .*(export (model|an)|use its scores)"):
        to_onnx(getattr(problems, name)())


@pytest.mark.parametrize("kind", [TabularClassifier, TabularRegressor])
def test_a_table_has_to_be_fitted_first(kind):
    with pytest.raises(NotFittedError):
        to_onnx(kind())


def test_the_walk_has_every_public_estimator():
    public = {name for name in problems.__all__ if name not in problems.PAGES} - {"load"}
    walked = {estimator.__name__ for estimator in ESTIMATORS} | {*problems.COMPOSED, *problems.SPECTRAL}
    assert public == walked
