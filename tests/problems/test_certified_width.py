"""The search of width and gamma with a proof: what it promises, and what it refuses with the next step."""

import warnings

import numpy as np
import pytest
from array_homes import sender
from numpy.testing import assert_allclose, assert_array_equal

from problems import LSSVMClassifierCV, LSSVMRegressorCV, load
from problems.estimators.chosen.certified_search import MOST_ROWS, MOST_ROWS_OF_EVIDENCE
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Laplacian, Linear, Matern

RNG = np.random.default_rng(5)
X = np.sort(RNG.uniform(-2.0, 2.0, size=(14, 1)), axis=0)
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.normal(size=14)
RECTANGLE = {"search": "certified", "cv": "evidence", "sigma_range": (0.2, 8.0), "gamma_range": (1e-2, 1e3)}
WIDTHS, GAMMAS = np.geomspace(0.2, 8.0, 9), (1e-2, 1e3)


@pytest.fixture(scope="module")
def model():
    return LSSVMRegressorCV(**RECTANGLE, width_gap=0.1).fit(X, Y)


def best_criteria(kernels, y=Y, weights=None, cv="evidence"):
    """The best criterion over all gammas, for every kernel."""
    return [
        LSSVMRegressorCV(kernel, cv=cv, gamma_range=GAMMAS).fit(X, y, sample_weight=weights).criterion_
        for kernel in kernels
    ]


def test_no_width_of_the_range_does_better_than_the_bound(model):
    assert model.criterion_lower_bound_ <= min(best_criteria(map(RBF, WIDTHS)))
    assert 0.9 * model.criterion_ <= model.criterion_lower_bound_ <= model.criterion_
    assert model.criterion_ <= min(best_criteria(map(RBF, WIDTHS)))
    assert_allclose(model.sigma_range_, [0.2, 8.0])
    assert_allclose(model.gamma_range_, [1e-2, 1e3])
    assert 0.2 <= model.kernel_.sigma <= 8.0


def test_the_certificate_states_the_proof(model):
    row = model.certificate_["gap of width and gamma"]
    assert row.passes
    assert row.tolerance == 0.1
    record = dict(model.certificate_.record)
    assert record["width searched"].startswith("0.2 to 8, every width and every gamma")
    assert "kernel matrices" in record["search of width"]
    assert model.certificate_.holds
    assert model.certify(X, Y).holds


@pytest.mark.slow
def test_units_of_x_and_y_change_nothing_else(model):
    scaled = {**RECTANGLE, "sigma_range": (0.2e9, 8e9)}
    other = LSSVMRegressorCV(**scaled, width_gap=0.1).fit(1e9 * X, 1e-6 * Y + 1.0)
    assert_allclose(other.kernel_.sigma, 1e9 * model.kernel_.sigma, rtol=0.02)
    assert_allclose(other.criterion_, 1e-12 * model.criterion_, rtol=1e-3)
    assert other.certificate_["gap of width and gamma"].passes


def test_a_model_file_keeps_the_proof(model, tmp_path):
    model.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert_array_equal(loaded.sigma_range_, model.sigma_range_)
    assert loaded.search == "certified"
    assert loaded.width_gap == 0.1
    assert loaded.criterion_lower_bound_ == model.criterion_lower_bound_


@pytest.mark.slow
@pytest.mark.parametrize("cv", ["loo", "gcv", "evidence"])
def test_several_kernels_weights_and_every_criterion(cv):
    weights = RNG.uniform(0.2, 3.0, size=14)
    kernels = [RBF(), RBF(2.0), Laplacian(), Matern(nu=2.5)]
    model = LSSVMRegressorCV(kernels=kernels, **{**RECTANGLE, "cv": cv}, width_gap=0.1)
    model.fit(X, Y, sample_weight=weights)
    others = [RBF(s) for s in WIDTHS] + [Laplacian(s) for s in WIDTHS] + [Matern(s, nu=2.5) for s in WIDTHS]
    assert model.criterion_lower_bound_ <= min(best_criteria(others, weights=weights, cv=cv))
    assert model.certificate_["gap of width and gamma"].passes


@pytest.mark.slow
def test_a_classifier_of_several_classes():
    labels = np.digitize(Y, [-0.4, 0.4])
    model = LSSVMClassifierCV(**RECTANGLE, width_gap=0.1).fit(X, labels)
    for width in WIDTHS:
        plain = LSSVMClassifierCV(RBF(width), cv="evidence", gamma_range=GAMMAS).fit(X, labels)
        assert plain.criterion_ >= model.criterion_lower_bound_
    assert model.certificate_["gap of width and gamma"].passes


def test_a_budget_that_is_too_small_fails_its_certificate():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LSSVMRegressorCV(**RECTANGLE, max_evaluations=5).fit(X, Y)
    assert not model.certificate_.holds
    assert "max_evaluations" in dict(model.certificate_.record)["search of width"]
    assert 0.0 <= model.criterion_lower_bound_ <= model.criterion_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": Linear()}, "one width: RBF, Laplacian or Matern"),
        ({"kernel": Matern(nu=0.8)}, "nu = 0.5, 1.5 or 2.5"),
        ({"cv": 5}, "use cv='loo', cv='gcv' or cv='evidence'"),
        ({"cv": "loo", "loss": "trimmed"}, "loss='squared'"),
        ({"sigma_range": (1.0,)}, "sigma_range must be a pair"),
        ({"sigma_range": (2.0, 1.0)}, "sigma_range must ascend"),
        ({"sigma_range": (0.0, 1.0)}, "an end of sigma_range"),
        ({"width_gap": 0.0}, "width_gap"),
        ({"gamma_range": (1.0, 1e12)}, "gamma_range that ends at 7.14e"),
        ({"search": None}, "sigma_range is for search='certified'"),
    ],
)
def test_what_cannot_be_proved_is_refused(parameters, message):
    with pytest.raises((DeclarationError, DataError), match=message):
        LSSVMRegressorCV(**{**RECTANGLE, **parameters}).fit(X, Y)


def test_data_that_cannot_be_searched_are_refused():
    with pytest.raises(DeclarationError, match="one output, received 2"):
        LSSVMRegressorCV(**RECTANGLE).fit(X, np.column_stack([Y, Y]))
    many = np.linspace(0.0, 1.0, MOST_ROWS + 1)[:, None]
    with pytest.raises(DeclarationError, match=r"at most 500 rows, received 501; use cv='evidence', for at most 5000"):
        LSSVMRegressorCV(**{**RECTANGLE, "cv": "loo"}).fit(many, many[:, 0])
    more = np.linspace(0.0, 1.0, MOST_ROWS_OF_EVIDENCE + 1)[:, None]
    with pytest.raises(DeclarationError, match="at most 5000 rows"):
        LSSVMRegressorCV(**RECTANGLE).fit(more, more[:, 0])
    with pytest.raises(DeclarationError, match="one_vs_one"):
        LSSVMClassifierCV(**{**RECTANGLE, "cv": "loo"}, coding="one_vs_one").fit(X, np.digitize(Y, [-0.4, 0.4]))


def test_many_rows_by_evidence(monkeypatch, model):
    """On few directions, as from 501 rows on, the same rectangle has the same answer."""
    monkeypatch.setattr("problems.estimators.chosen.certified_search.MOST_ROWS", 5)
    other = LSSVMRegressorCV(**RECTANGLE, width_gap=0.1).fit(X, Y)
    assert other.certificate_.holds
    assert other.certificate_["gap of width and gamma"].passes
    assert 0.9 * other.criterion_ <= other.criterion_lower_bound_ <= min(best_criteria(map(RBF, WIDTHS)))
    assert_allclose(other.criterion_, model.criterion_, rtol=0.02)


def test_rows_on_a_device_by_evidence_alone():
    send = sender("torch")
    rectangle = {**RECTANGLE, "sigma_range": (0.5, 2.0), "gamma_range": (0.1, 10.0)}
    moved = LSSVMRegressorCV(**rectangle, width_gap=0.1).fit(send(X), send(Y))
    assert moved.certificate_.holds
    here = LSSVMRegressorCV(**rectangle, width_gap=0.1).fit(X, Y)
    assert_allclose(float(moved.criterion_), here.criterion_, rtol=0.02)
    assert float(moved.criterion_lower_bound_) <= here.criterion_
    with pytest.raises(DeclarationError, match="but for cv='evidence'"):
        LSSVMRegressorCV(**{**rectangle, "cv": "gcv"}).fit(send(X), send(Y))
