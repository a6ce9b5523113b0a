"""Pruned machines: steps are what refits are, outliers leave first or last, the index decides, steps are models."""

import naive_pruning as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import LSSVMRegressor, PrunedLSSVMClassifier, PrunedLSSVMRegressor
from substrate.codings import code_book
from substrate.datasets import sinc, sinc_outliers
from substrate.errors import DeclarationError
from substrate.kernels import RBF

KERNEL, GAMMA = RBF(1.0), 10.0


def data(n=60, seed=0):
    return sinc(n, random_state=seed)


def pruned(**parameters):
    return PrunedLSSVMRegressor(KERNEL, GAMMA, **parameters)


def three_classes(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    number = (X[:, 0] + 0.3 * rng.normal(size=n) > 0.0).astype(int) + (X[:, 1] > 0.5)
    return X, np.array(["a", "b", "c"])[number]


# --- the way down -----------------------------------------------------------------------------------------------------


def assert_same_path(path, expected, atol=1e-9):
    assert [step.size for step in path] == [rows.size for rows, _, _ in expected]
    for step, (rows, alpha, _) in zip(path, expected, strict=True):
        assert_array_equal(step.rows, rows)
        assert_allclose(step.support_values, alpha, atol=atol)
        assert_allclose(
            step.spectrum, np.sort(np.abs(alpha) if alpha.ndim == 1 else np.linalg.norm(alpha, axis=1))[::-1]
        )


@pytest.mark.parametrize("step", [0.05, 0.3, 1, 7, 59])
def test_every_machine_on_the_way_is_the_one_refitted(step):
    X, y = data()
    model = pruned(step=step, n_support=2).fit(X, y)
    how = {"share": step} if isinstance(step, float) else {"count": step}
    assert_same_path(model.pruning_path_, naive.prune(KERNEL(X), y, GAMMA, np.ones(60), **how))
    assert model.step_ == len(model.pruning_path_) - 1


def test_robust_weights_are_found_at_every_step_as_in_the_paper():
    """:place [Suykens2002]_ Algorithm 2: against the steps written out."""
    X, y = sinc_outliers(60, n_outliers=4, random_state=1)
    model = pruned(robust="hampel", n_support=4).fit(X, y)
    assert_same_path(model.pruning_path_, naive.prune(KERNEL(X), y, GAMMA, np.ones(60), fewest=4, reweight=True))
    assert "hampel, iqr scale" in str(model.certificate_)


def test_several_machines_are_pruned_by_the_norm_of_their_support_values():
    """:place [Carvalho2006]_ section 3.2: against refits."""
    X, labels = three_classes()
    for coding in ("one_vs_rest", "minimum_output", "ecoc"):
        Y = code_book(coding, 3)[np.searchsorted(["a", "b", "c"], labels)]
        model = PrunedLSSVMClassifier(KERNEL, GAMMA, coding=coding, n_support=20).fit(X, labels)
        assert_same_path(model.pruning_path_, naive.prune(KERNEL(X), Y, GAMMA, np.ones(60), fewest=20))


# --- outliers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_weighted_pruning_drops_outliers_first_and_plain_pruning_keeps_them_longest(seed):
    sample = sinc_outliers(random_state=seed)
    X, y, outliers = sample.data, sample.target, sample.outliers
    weighted = pruned(robust="hampel", n_support=20).fit(X, y)
    plain = pruned(n_support=20).fit(X, y)
    assert not np.isin(outliers, weighted.pruning_path_[1].rows).any(), "gone after the first step"
    assert np.isin(outliers, plain.support_).all(), "still there at the end"


# --- the index --------------------------------------------------------------------------------------------------------


def refit(X, y, rows, points):
    return LSSVMRegressor(KERNEL, GAMMA).fit(X[rows], y[rows]).predict(points)


def test_closed_form_cross_validation_is_refitting():
    X, y = data(30)
    model = pruned(step=4, n_support=3, cv="loo").fit(X, y)
    for step in model.pruning_path_[::2]:
        errors = y - refit(X, y, step.rows, X)  # a pruned row is left out as it is
        for row in step.rows:
            errors[row] = y[row] - refit(X, y, np.setdiff1d(step.rows, [row]), X[[row]])[0]
        assert_allclose(step.score, np.mean(errors**2), rtol=1e-7)


@pytest.mark.parametrize("cv", ["training", "loo"])
@pytest.mark.parametrize("growth", [0.0, 0.1, 1.0])
def test_it_stops_before_the_first_machine_whose_index_has_degraded(cv, growth):
    X, y = data(100)
    model = pruned(cv=cv, growth=growth, step=3).fit(X, y)
    scores = np.array([step.score for step in model.pruning_path_])
    limit = scores[0] * (1.0 + growth)
    assert (scores[:-1] <= limit).all()
    assert scores[-1] > limit
    assert model.step_ == len(scores) - 2
    assert_array_equal(model.support_, model.pruning_path_[-2].rows)
    assert f"> {limit:.4g}" in str(model.certificate_)


# --- models -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        *[
            ({"step": wrong}, "step must be a share in")
            for wrong in (0, -1, 0.0, 1.0, 1.5, -0.1, np.nan, "5%", None, True)
        ],
        *[({"n_support": wrong}, "n_support must be an integer >= 2") for wrong in (0, 1, -3, 2.0, "10", True)],
        *[({"cv": wrong}, "cv must be one of training, loo") for wrong in ("test", "gcv", 5, True, None, [(0, 1)])],
        ({"growth": -0.1}, "growth must be >= 0"),
        ({"growth": np.nan}, "growth must be a finite number"),
        ({"robust": "tukey"}, "weighting must be one of"),
        ({"robust": 1.0}, "robust must be None, the name of a weighting or a Robust"),
    ],
)
def test_bad_settings_are_refused(parameters, message):
    X, y = data()
    with pytest.raises(DeclarationError, match=message):
        pruned(**parameters).fit(X, y)
