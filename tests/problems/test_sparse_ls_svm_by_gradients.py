"""solver="cg" of the sparse LS-SVMs: the same machines, the same certificate, and no leverages."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import problems
import problems.estimators.reduced.fit
from problems import SparseLSSVMClassifier, SparseLSSVMRegressor
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Precomputed
from substrate.reduced import Basis
from substrate.reduced.gradients import solve_by_gradients

RNG = np.random.default_rng(12)
X = RNG.normal(size=(2000, 3))
y = 1e6 * (np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=2000))
LABELS = np.array(["low", "middle", "high"])[np.digitize(y, [-5e5, 5e5])]
MODEL = SparseLSSVMRegressor(RBF(2.0), 10.0, basis=Basis(60, rule="random", random_state=0), solver="cg")


def direct(model):
    return clone(model).set_params(solver="direct")


def test_regression_is_that_of_the_direct_solve():
    iterated, summed = clone(MODEL).fit(X, y), direct(MODEL).fit(X, y)
    assert_allclose(iterated.predict(X), summed.predict(X), atol=1e-6 * np.std(y))
    assert iterated.certificate_.holds
    assert iterated.certify(X, y).holds
    assert dict(iterated.certificate_.record)["solver"].startswith("conjugate gradients")


def test_huge_targets_change_the_unit_and_nothing_else():
    usual, huge = clone(MODEL).fit(X, y), clone(MODEL).fit(X, 2.0**660 * y)
    assert_allclose(huge.predict(X) / 2.0**660, usual.predict(X), atol=1e-6 * np.std(y))
    assert dict(huge.certificate_.record)["units"] == "residuals in units of max|y|"
    assert huge.certificate_.holds


def test_auto_is_direct():
    auto, summed = clone(MODEL).set_params(solver="auto").fit(X, y), direct(MODEL).fit(X, y)
    assert np.array_equal(auto.support_values_, summed.support_values_)
    assert auto.certificate_ == summed.certificate_


def test_classes_are_those_of_the_direct_solve():
    model = SparseLSSVMClassifier(RBF(2.0), 10.0, basis=Basis(60, rule="random", random_state=0), solver="cg")
    iterated, summed = clone(model).fit(X, LABELS), direct(model).fit(X, LABELS)
    assert_allclose(iterated.decision_function(X), summed.decision_function(X), atol=1e-5)
    assert iterated.certificate_.holds
    with pytest.raises(DeclarationError, match="solver='direct'"):
        iterated.leave_one_out(X, LABELS)


def test_a_precomputed_matrix_is_iterated_on_too():
    model = SparseLSSVMRegressor(Precomputed(), 10.0, basis=np.arange(0, 300, 10), solver="cg")
    K = RBF(2.0)(X[:300])
    iterated, summed = clone(model).fit(K, y[:300]), direct(model).fit(K, y[:300])
    assert_allclose(iterated.predict(K), summed.predict(K), atol=1e-6 * np.std(y))


def test_leave_one_out_is_refused_before_the_rows_are_looked_at():
    model = clone(MODEL).fit(X, y)
    assert not hasattr(model, "degrees_of_freedom_")
    with pytest.raises(DeclarationError, match=r"leverages.*solver='direct'"):
        model.leave_one_out(X[:3], "no targets")


def test_a_fit_again_by_the_other_solver_leaves_nothing_behind():
    model = direct(MODEL).fit(X, y)
    model.set_params(solver="cg").fit(X, y)
    assert not hasattr(model, "leverage_factor_")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "newton"}, "solver must be one of auto, direct, cg, received 'newton'"),
        ({"solver": np.ones(2)}, "solver must be one of auto, direct, cg"),
    ],
)
def test_what_cannot_be_done_is_refused(options, message):
    with pytest.raises(DeclarationError, match=message):
        clone(MODEL).set_params(**options).fit(X, y)


def test_an_iteration_cut_short_warns_and_its_certificate_does_not_hold(monkeypatch):
    def short(*given, **named):
        return solve_by_gradients(*given, **named, most=2)

    monkeypatch.setattr(problems.estimators.reduced.fit, "solve_by_gradients", short)
    with pytest.warns(ConvergenceWarning, match="after 2 iterations"):
        model = clone(MODEL).fit(X, y)
    assert not model.certificate_.holds


def test_a_model_without_leverages_is_saved_and_loaded_whole_or_not_at_all(tmp_path):
    model = clone(MODEL).fit(X, y)
    model.save(tmp_path / "model.npz")
    loaded = problems.load(tmp_path / "model.npz")
    assert np.array_equal(loaded.predict(X), model.predict(X))
    model.degrees_of_freedom_ = 3.0  # one of the three that belong together
    with pytest.raises(DataError, match="could not be loaded again"):
        model.save(tmp_path / "half.npz")
    assert not (tmp_path / "half.npz").exists()


def test_rows_that_are_read_in_passes_give_the_same_bits():
    streamed = clone(MODEL).fit([(X[:700], y[:700]), (X[700:], y[700:])])
    assert np.array_equal(streamed.support_values_, clone(MODEL).fit(X, y).support_values_)
