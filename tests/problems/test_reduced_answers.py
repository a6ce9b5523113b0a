"""Machines on a reduced basis bound their answer: against ball arithmetic, on wild input, and after tampering."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from problems import (
    KernelRegressor,
    L1SubstrateClassifier,
    L1SubstrateRegressor,
    LSSVMClassifier,
    LSSVMRegressor,
    LSSVMRegressorCV,
    MaximalVariationRegressor,
)
from substrate.errors import DataError
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Polynomial
from substrate.losses import Huber

pytest.importorskip("flint")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=90)
LABELS = np.where(Y > 0.3, "high", np.where(Y > -0.3, "middle", "low"))
BASIS = np.arange(12)

MODELS = {
    "direct": (LSSVMRegressor(RBF(1.0), 10.0, basis=BASIS), Y),
    "gamma chosen": (LSSVMRegressorCV(RBF(1.0), basis=BASIS), Y),
    "classes": (LSSVMClassifier(RBF(1.0), 10.0, basis=BASIS), LABELS),
    "components": (LSSVMRegressor(Componentwise(RBF(1.0)), 10.0, basis=BASIS), Y),
    "robust": (LSSVMRegressor(RBF(1.0), 10.0, basis=BASIS, robust="hampel"), Y),
    "L1": (L1SubstrateRegressor(RBF(1.0), 0.5, basis=BASIS), Y),
    "L1 of classes": (L1SubstrateClassifier(RBF(1.0), 0.5, basis=BASIS), LABELS),
    "maximal variation": (
        MaximalVariationRegressor(RBF(1.0), rho=2.0, expansion="decoupled", ridge=1.0, basis=BASIS),
        Y,
    ),
}


@pytest.fixture(params=MODELS)
def fitted(request):
    model, targets = MODELS[request.param]
    return model.fit(X, targets), targets


def test_the_answer_comes_first_and_is_proved(fitted):
    model, targets = fitted
    certificate = model.certificate_
    assert certificate.holds
    assert certificate.rows[0] is certificate.answer
    proof = model.prove(X, targets)
    assert proof.proved
    assert proof.accuracy <= certificate.accuracy
    assert model.certify(X, targets).holds


@pytest.mark.parametrize("name", ["support_values_", "bias_", "support_vectors_", "kernel_"])
def test_a_change_of_what_predict_uses_is_noticed(fitted, name):
    model, targets = fitted
    kept, before = getattr(model, name), model._evaluate(X)
    changes = {
        "support_values_": lambda: kept * (1.0 + 1e-4),
        "bias_": lambda: kept + 1e-4,
        "support_vectors_": lambda: kept + 1e-4,
        "kernel_": lambda: kept.with_params(**{key: 1.0001 for key in kept.get_params() if key.endswith("sigma")}),
    }
    setattr(model, name, changes[name]())
    moved = float(np.sqrt(np.mean((model._evaluate(X) - before) ** 2)))
    assert moved > 1e-6 * model.certificate_.spread
    certificate, proof = model.certify(X, targets), model.prove(X, targets)
    setattr(model, name, kept)
    assert not certificate["accuracy"].passes
    assert not certificate.holds
    assert not proof.proved


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("kernel", [RBF(0.8), RBF(4.0), Laplacian(1.0), Linear(), Polynomial(2, 1.0)], ids=repr)
@pytest.mark.parametrize("gamma", [1.0, 1e6])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.covering
def test_no_bound_is_below_the_true_distance(kernel, gamma, offset):
    """The proof of a least-squares machine encloses the distance itself, so it may not exceed the certificate."""
    model = LSSVMRegressor(kernel, gamma, basis=BASIS).fit(X, Y + offset)
    assert model.prove(X, Y + offset).accuracy <= model.certificate_.accuracy


def test_what_double_precision_cannot_know_is_said_with_the_cure():
    wide = RBF(3.0)
    with pytest.warns(ConvergenceWarning, match="narrower kernel"):
        model = LSSVMRegressor(wide, 1e12, basis=np.arange(40)).fit(X, Y)
    assert not model.certificate_.holds
    assert "double precision cannot give" in str(model.certificate_)


def test_the_first_line_names_the_vectors_of_the_machine_that_is_proved():
    cut = LSSVMRegressor(RBF(5.0), 1.0, basis=np.arange(90)).fit(X, Y)
    assert cut.certificate_.holds
    assert cut.rank_ < 90
    first = str(cut.certificate_).splitlines()[0]
    assert f"fitted values of the machine on {cut.rank_} of 90 basis vectors within" in first
    assert f"{cut.rank_} of 90 basis vectors" in str(cut.certify(X, Y)).splitlines()[0]
    proof = cut.prove(X, Y)
    assert proof.proved
    assert f"of the machine on {cut.rank_} of 90 basis vectors within" in str(proof)
    huber = KernelRegressor(RBF(5.0), 1.0, loss=Huber(1.0), basis=np.arange(90)).fit(X, Y)
    for text in (huber.certificate_, huber.certify(X, Y), huber.prove(X, Y)):
        assert "of 90 basis vectors within" in str(text).splitlines()[0]
    whole = LSSVMRegressor(RBF(0.5), 1.0, basis=BASIS).fit(X, Y)
    assert "basis vectors" not in str(whole.certificate_).splitlines()[0]


def test_a_model_on_other_rows_is_refused_by_both():
    model = MODELS["direct"][0].fit(X, Y)
    for method in (model.certify, model.prove):
        with pytest.raises(DataError, match="fitted to 90 rows"):
            method(X[:50], Y[:50])
