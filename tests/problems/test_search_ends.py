"""A search that holds is the best of its range: one law for every search of gamma, against ball arithmetic.

The criterion at the chosen gamma is within the gap of the least one of a scan of the stated range, or is negligible, a
millionth of a millionth of the variance of y; or else the certificate does not hold, and a warning states what to
widen.
"""

import warnings
from functools import partial

import numpy as np
import pytest
from exact_criteria import exact_criterion
from exact_reduced_criteria import exact_reduced_criterion, features_of
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from problems import LSSVMRegressorCV
from substrate.basis import Basis
from substrate.bounds.proof import precision
from substrate.kernels import RBF, Laplacian, Linear

pytest.importorskip("flint")

N = 14
#: A criterion that needs no bound, as a share of the variance of y.
NEGLIGIBLE = 1e-12
CRITERIA = ("loo", "gcv", "evidence", "folds")
KINDS = ("no noise", "noise 1e-3", "duplicates", "huge units", "noise 1e-6", "noise 0.1", "tiny units", "noise only")
KERNELS = (RBF("median"), RBF(0.7), RBF(30.0), Laplacian("median"), Linear())


def data(kind, seed):
    """A smooth function on a line, with the noise, the copies or the units of a kind."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, size=(N, 1))
    if kind == "duplicates":
        X[N // 2 :] = X[: N - N // 2]
    noise = {"no noise": 0.0, "noise 1e-6": 1e-6, "noise 1e-3": 1e-3, "noise only": 1e3}.get(kind, 0.1)
    y = np.sin(1.5 * X[:, 0]) + noise * rng.normal(size=N)
    unit = {"tiny units": 1e-12, "huge units": 1e12}.get(kind, 1.0)
    return unit * X, unit * y, unit


def scanned(model, X, y, criterion):
    """The exact criterion at the choice, and the least one of a scan of the range."""
    gammas = [float(model.gamma_), *np.geomspace(*model.gamma_range_, 16)]
    if isinstance(model, LSSVMRegressorCV):
        with precision(500):
            Z = features_of(model, X)
            values = [exact_reduced_criterion(Z, y, criterion, float(gamma)) for gamma in gammas]
    else:
        splits = tuple(KFold(5).split(X))
        values = exact_criterion(criterion, model.kernel_, X, y, gammas, splits)
    return values[0], min(values)


def check_end(machine, criterion, kind, kernel, seed, **parameters):
    """The law; returns whether the certificate holds."""
    X, y, unit = data(kind, seed)
    if isinstance(kernel, RBF) and not isinstance(kernel.sigma, str):
        kernel = RBF(unit * kernel.sigma)
    if machine is LSSVMRegressorCV:
        parameters |= {"basis": Basis(9, random_state=0)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = machine(kernel, cv=5 if criterion == "folds" else criterion, **parameters).fit(X, y)
    reached, least = scanned(model, X, y, criterion)
    if reached > (1.0 + 2.0 * model.gap) * max(least, NEGLIGIBLE * np.var(y)):
        assert not model.certificate_.holds, (reached, least, model.gamma_, model.gamma_range_)
        advice = dict(model.certificate_.record)["to widen"]
        assert any(advice in str(one.message) for one in caught)
    return model.certificate_.holds


@pytest.mark.parametrize("machine", [LSSVMRegressorCV, partial(LSSVMRegressorCV, basis="feature_vectors")])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(17))
@pytest.mark.covering
def test_a_search_that_holds_is_the_best_of_its_range(machine, criterion, kernel, kind, seed):
    check_end(machine, criterion, kind, kernel, seed)


@pytest.mark.parametrize("kind", ["noise 0.1", "no noise"])
def test_the_bound_of_several_kernels_is_over_the_range_that_is_stated_of_each(kind):
    X, y, _ = data(kind, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LSSVMRegressorCV(kernels="families").fit(X, y)
    results, rng = model.cv_results_, np.random.default_rng(0)
    assert "cv_results_['gamma_range']" in dict(model.certificate_.record)["ranges of gamma"]
    chosen = int(results["rank_test_score"].argmin())
    assert tuple(results["gamma_range"][chosen]) == tuple(model.gamma_range_)
    for kernel, (low, high) in zip(results["param_kernel"], results["gamma_range"], strict=True):
        gammas = [low, high, *np.exp(rng.uniform(np.log(low), np.log(high), 2))]
        values = exact_criterion("loo", kernel, X, y, gammas)
        assert (values >= model.criterion_lower_bound_ * (1.0 - 1e-12)).all(), (kernel, gammas, values)


def test_a_range_ends_where_rounding_hides_what_is_beyond_and_says_so():
    """Without noise the criterion falls until rounding decides: the best machine is kept, and it is said."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (100, 2))
    with pytest.warns(ConvergenceWarning, match="gap of gamma"):
        model = LSSVMRegressorCV(RBF(1.5)).fit(X, np.sinc(X[:, 0]))
    record = dict(model.certificate_.record)
    assert "best at the upper end" in record["gamma searched"]
    assert "would be met" in record["to widen"]
    assert model.criterion_ < 1e-4
