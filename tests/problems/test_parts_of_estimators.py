"""Estimators are shallow: few bases, and parameters with which each is typically used."""

import inspect
import pkgutil
from importlib import import_module

from every_model import over_estimators

import problems.estimators

#: Classes of our own that a class may derive from, itself included.
MOST_BASES = 5


def own_classes(kind):
    return [base for base in kind.__mro__ if base.__module__.split(".")[0] in ("problems", "substrate")]


def test_no_class_has_more_than_five_classes_of_our_own():
    names = [module.name for module in pkgutil.walk_packages(problems.estimators.__path__, "problems.estimators.")]
    kinds = {kind for name in names for kind in vars(import_module(name)).values() if inspect.isclass(kind)}
    kinds = {kind for kind in kinds if kind.__module__.startswith("problems.")}
    assert problems.LSSVMRegressor in kinds
    assert {kind.__name__: own_classes(kind) for kind in kinds if len(own_classes(kind)) > MOST_BASES} == {}


@over_estimators
def test_typical_parameters_are_parameters_of_the_estimator_and_not_its_defaults(estimator):
    defaults = estimator().get_params(deep=False)
    for choice in estimator._typical:
        assert set(choice) <= set(defaults)
        assert all(defaults[name] != value for name, value in choice.items())
