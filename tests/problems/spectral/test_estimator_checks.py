"""scikit-learn's own checks over every estimator without targets."""

import re

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import problems
from substrate.errors import DataError

SPECTRAL = [getattr(problems, name) for name in problems.SPECTRAL]
#: Every estimator as it comes, and in its typical uses.
USES = [(kind, dict(choice)) for kind in SPECTRAL for choice in ({}, *kind._typical)]


def instances():
    """Every estimator as it comes, and components of a precomputed matrix: any symmetric one has some."""
    return [*(estimator() for estimator in SPECTRAL), problems.LSSVMKernelPCA("precomputed")]


@pytest.mark.filterwarnings("ignore::substrate.errors.IndefiniteKernelWarning", "ignore::substrate.errors.ScaleWarning")
@pytest.mark.filterwarnings("ignore::substrate.errors.DegenerateKernelWarning")
@parametrize_with_checks(instances())
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", SPECTRAL)
def test_parameters_are_documented_in_the_order_of_the_signature(estimator):
    names = list(estimator()._get_param_names())
    documented = re.findall(r"^    (\w+) : ", estimator.__doc__.split("Attributes")[0], flags=re.MULTILINE)
    assert set(documented) == set(names)


@pytest.mark.parametrize("estimator", SPECTRAL)
def test_it_is_a_page(estimator):
    assert estimator._page in problems.PAGES
    assert estimator._title


@pytest.mark.parametrize(("kind", "choice"), USES)
def test_a_file_with_other_shapes_is_refused(tmp_path, kind, choice):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3))
    model = kind(**choice).fit(X, (X[:, 0] > 0.0).astype(int))
    assert model.certificate_.holds
    assert np.isfinite(model.transform(X)).all()
    model.save(tmp_path / "model.npz")
    assert problems.load(tmp_path / "model.npz").certificate_.holds
    model.support_values_ = model.support_values_[:-1]
    with pytest.raises(DataError, match="not saved"):
        model.save(tmp_path / "other.npz")
