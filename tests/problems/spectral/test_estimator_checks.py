"""scikit-learn's own checks over every estimator without targets."""

import re

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import problems

SPECTRAL = [getattr(problems, name) for name in problems.SPECTRAL]


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
