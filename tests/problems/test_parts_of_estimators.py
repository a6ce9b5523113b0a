"""An estimator is a task with parts: few bases, kinds of parts that its class names, and no state in a part."""

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import problems.estimators
from problems.estimators.chosen.search import Search
from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.intervals import Intervals
from problems.estimators.shared.model import Model, has_part, part_types
from problems.estimators.shared.probabilities import Calibration
from problems.estimators.shared.regressor import Regressor
from tests.oracles.every_model import ESTIMATORS, make_data, make_estimator, quick_kernel

#: Classes of our own that a class may be make_estimator of, itself included.
MOST_BASES = 5
over_estimators = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__)


def own_classes(kind):
    return [base for base in kind.__mro__ if base.__module__.split(".")[0] in ("problems", "substrate")]


def classes_of_the_package():
    names = [module.name for module in pkgutil.walk_packages(problems.estimators.__path__, "problems.estimators.")]
    found = {kind for name in names for kind in vars(import_module(name)).values() if inspect.isclass(kind)}
    ours = [kind for kind in found if kind.__module__.startswith("problems.")]
    return sorted(ours, key=lambda kind: kind.__qualname__)


def fields_of(kind):
    return getattr(kind, "__dataclass_fields__", {})


def test_no_class_has_more_than_five_classes_of_our_own():
    depths = {kind.__qualname__: own_classes(kind) for kind in classes_of_the_package()}
    assert {"LSSVMRegressor", "LSSVMModel", "DenseSearch", "StoredSaddle"} <= set(depths), "the walk finds them all"
    assert {name: bases for name, bases in depths.items() if len(bases) > MOST_BASES} == {}


@over_estimators
def test_an_estimator_has_one_task_and_one_model(estimator):
    bases = own_classes(estimator)
    assert bases[-1] is KernelEstimator
    assert (Regressor in bases) != (Classifier in bases)
    kinds = {KernelEstimator: Model, Regressor: Intervals, Classifier: Calibration}
    wanted = [kinds[task] for task in (KernelEstimator, Regressor, Classifier) if task in bases]
    wanted += [Search] if estimator._chooses is not None else []
    assert [next(kind for kind in wanted if issubclass(part, kind)) for part in part_types(estimator())] == wanted
    assert has_part(estimator(), Model)
    assert not has_part(estimator(), KernelEstimator)


@over_estimators
def test_typical_parameters_are_parameters_of_the_estimator_and_not_its_defaults(estimator):
    defaults = estimator().get_params(deep=False)
    for choice in estimator._typical:
        assert set(choice) <= set(defaults)
        assert all(defaults[name] != value for name, value in choice.items())


@over_estimators
def test_a_part_holds_its_estimator_and_nothing_else(estimator):
    X, y = make_data(estimator)
    model = make_estimator(estimator, kernel=quick_kernel(estimator)).fit(X, y)
    model.certify(X, y)
    assert not [name for name in vars(model) if name.endswith("_type")]
    assert model._model is not model._model
    assert vars(model._model) == {"estimator": model}


def test_the_table_of_contributing_names_what_there_is():
    text = (Path(problems.estimators.__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [
        line for line in text.splitlines() if line.startswith(("| task", "| model", "| the LS", "| sum", "| linear"))
    ]
    rows += [
        line for line in text.splitlines() if line.startswith(("| intervals |", "| calibration |", "| selector |"))
    ]
    assert len(rows) == 11
    kinds = classes_of_the_package()
    known = {kind.__name__ for kind in kinds} | {name for kind in kinds for name in [*dir(kind), *fields_of(kind)]}
    named = {name for row in rows for name in re.findall(r"`(\w+)(?: = \w+)?`", row)}
    assert named <= known | {"READERS", "coef_", "cv", "return_std"}, named - known
