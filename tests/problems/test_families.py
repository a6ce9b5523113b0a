"""Families of kernels, and the rule between a shared width and one per input: never worse, whatever the units."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from problems import LSSVMClassifierCV, LSSVMRegressorCV
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Laplacian, Linear, Matern

RNG = np.random.default_rng(8)
X = RNG.normal(size=(36, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.normal(size=36)
LABELS = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.3 * RNG.normal(size=36), [-0.4, 0.4])]
FAMILIES = (Linear(), RBF(), Laplacian(), Matern(nu=1.5), Matern(nu=2.5))
FEW = {"search": "gradient", "max_evaluations": 8}


def columns_that_differ(n=60, noise=0.05):
    """Two inputs that matter much, four that do not."""
    rng = np.random.default_rng(1)
    points = rng.normal(size=(n, 6))
    return points, np.sin(2.0 * points[:, 0]) + points[:, 1] + noise * rng.normal(size=n)


@pytest.mark.parametrize(
    ("machine", "targets"),
    [
        (LSSVMRegressorCV(), Y),
        (LSSVMClassifierCV(), LABELS),
        (LSSVMRegressorCV(basis=12), Y),
        (LSSVMClassifierCV(basis=12), LABELS),
    ],
    ids=lambda value: type(value).__name__,
)
def test_families_are_never_worse_by_the_criterion_than_a_listed_kernel(machine, targets):
    """Or simpler, where one standard error does not tell them apart."""
    model = clone(machine).set_params(kernels="families").fit(X, targets)
    kernels, scores = model.cv_results_["param_kernel"], model.cv_results_["mean_test_score"]
    for kernel in (*FAMILIES, kernels[7]):
        alone = clone(machine).set_params(kernels=[kernel]).fit(X, targets)
        assert -scores.max() <= alone.criterion_ * (1.0 + 1e-9)
    if type(machine) is LSSVMRegressorCV:
        best = clone(machine).set_params(kernels=[kernels[int(np.argmax(scores))]]).fit(X, targets)
        assert model.effective_parameters_ <= best.effective_parameters_ * (1.0 + 1e-9)
    else:
        assert_allclose(model.criterion_, -scores.max(), rtol=1e-12)
    said = dict(model.certificate_.record)["kernels"]
    assert said == "21 evaluated; families Linear, RBF, Laplacian, Matern 1.5, Matern 2.5"
    assert model.certificate_.holds


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_a_common_unit_of_the_columns_changes_nothing(unit):
    points, y = columns_that_differ(40)
    one = LSSVMRegressorCV(kernels="families", **FEW).fit(points, y)
    other = LSSVMRegressorCV(kernels="families", **FEW).fit(unit * points, y)
    assert type(one.kernel_) is type(other.kernel_)
    assert_allclose(np.divide(other.kernel_.sigma, unit), one.kernel_.sigma, rtol=1e-4)
    assert_allclose(other.predict(unit * points), one.predict(points), rtol=1e-4, atol=1e-4)
    lists = [model.cv_results_["mean_test_score"][:21] for model in (one, other)]
    assert_allclose(*lists, rtol=1e-7)


def test_the_rule_takes_one_width_per_input_where_inputs_differ():
    points, y = columns_that_differ()
    model = LSSVMRegressorCV.recommended(max_evaluations=24).fit(points, y)
    widths = np.array(model.kernel_.sigma)
    assert widths.shape == (6,)
    assert widths[:2].max() < widths[2:].min()
    assert dict(model.certificate_.record)["widths"].endswith(": one per input")
    shared = LSSVMRegressorCV(kernels="families").fit(points, y)
    assert model.criterion_ < 0.5 * shared.criterion_
    fresh, _ = columns_that_differ(400)
    truth = np.sin(2.0 * fresh[:, 0]) + fresh[:, 1]
    errors = [np.mean((one.predict(fresh) - truth) ** 2) for one in (model, shared)]
    assert errors[0] < errors[1]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernels": "family"}, "or 'families', received 'family'"),
        ({"kernels": []}, "at least one, or 'families'"),
        ({"kernels": RBF()}, "kernels must be a list of kernels"),
        ({"widths": "both", "search": "gradient"}, "widths must be None, 'auto', 'shared' or 'each', received 'both'"),
        ({"widths": "each"}, "widths='each' is decided by search='gradient', received search=None"),
        ({"kernels": "families", "kernel": "precomputed"}, "kernel='precomputed' has none; pass X itself"),
    ],
)
def test_what_cannot_be_tried_is_refused_by_name(parameters, message):
    points = X @ X.T if parameters.get("kernel") == "precomputed" else X
    with pytest.raises(DeclarationError, match=message):
        LSSVMRegressorCV(**parameters).fit(points, Y)
