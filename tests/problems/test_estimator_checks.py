"""scikit-learn's own checks over every exported estimator.

Two fail as expected: one of weights of rows that are pruned, or left out, whole, and one that passes rows to
precomputed kernels.
"""

import inspect
import re
import warnings
from functools import cache

import pytest
from every_model import PRUNED, is_additive
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import problems
from substrate.errors import IndefiniteKernelWarning
from substrate.kernels import Linear, Precomputed

#: The checks whose random X, read as a precomputed kernel matrix, is not positive semi-definite.
NOT_A_KERNEL_MATRIX = {"check_positive_only_tag_during_fit"}


def exported_estimators() -> list[type[BaseEstimator]]:
    return [getattr(problems, name) for name in sorted(problems.ESTIMATORS)]


def instances() -> list[BaseEstimator]:
    """Every estimator as it comes, with a precomputed kernel, with another kernel, and by its declared problem."""
    made: list[BaseEstimator] = []
    for estimator in exported_estimators():
        # whole paths of many components take their time; paths of linear ones do not
        made.append(estimator(kernel=Linear()) if is_additive(estimator) else estimator())
        parameters = estimator().get_params(deep=False)
        # those that only choose a parameter of another, or its kernel, are tried as they come and on a matrix
        derived = is_additive(estimator) or estimator._chooses is not None
        if "kernel" in parameters:
            made += [] if derived else [estimator(kernel=Linear())]
            # the name and the object are one kernel by the first line of every fit; both are tried on one estimator
            given = [Precomputed(), "precomputed"] if estimator is problems.LSSVMRegressor else [Precomputed()]
            made += [e for e in map(estimator, given) if e.__sklearn_tags__().input_tags.pairwise]
        made += [] if derived or "max_iter" not in parameters else [estimator(solver="cg")]
    # one check leaves the seed alone, and the rows held out would be others in every run
    for one in made:
        if "random_state" in one.get_params(deep=False):
            one.set_params(random_state=0)
    return made


def expected_to_fail(estimator: BaseEstimator) -> dict[str, str]:
    """A row of weight two is pruned, or left out of a stack, whole; of two equal rows one is, and the other stays."""
    if estimator.__sklearn_tags__().input_tags.pairwise and hasattr(estimator, "predict_proba"):
        return {"check_decision_proba_consistency": "it passes rows, where a kernel matrix is needed"}
    is_stack = type(estimator).__name__.startswith("Stacked")
    if type(estimator) not in PRUNED and not is_stack:
        return {}
    names = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
    return dict.fromkeys(names, "a weighted row is left out whole" if is_stack else "a weighted row is pruned whole")


CHECKS = parametrize_with_checks(instances(), expected_failed_checks=expected_to_fail).mark


@cache
def name_of(estimator_or_check):
    """Return scikit-learn's name of a case; the name of an estimator is printed once, not for each of its checks."""
    return CHECKS.kwargs["ids"](estimator_or_check)


@pytest.mark.parametrize(*CHECKS.args, ids=name_of)
def test_scikit_learn_finds_nothing_to_complain_about(estimator, check):
    if getattr(estimator, "solver", None) == "cg" and "sample_weight_equivalence" in name_of(check):
        estimator.set_params(tol=1e-10)  # it compares to 1e-7
    with warnings.catch_warnings():
        pairwise = estimator.__sklearn_tags__().input_tags.pairwise
        # rounded to single precision a kernel matrix is indefinite, and a certificate says so
        if pairwise and (check.func.__name__ in NOT_A_KERNEL_MATRIX or "float32" in name_of(check)):
            warnings.simplefilter("ignore", IndefiniteKernelWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
        # noise is all that some checks offer, and a selector may say so
        warnings.filterwarnings("ignore", message="No features were selected", category=UserWarning)
        assert check(estimator) is None


@pytest.mark.parametrize("estimator", exported_estimators())
def test_docstring_lists_every_parameter_in_the_order_of_the_signature(estimator):
    documented = inspect.getdoc(estimator)
    assert documented is not None
    section = documented.partition("\nParameters\n")[2].partition("\nAttributes\n")[0]
    entries = [entry.split(", ") for entry in re.findall(r"^(\w+(?:, \w+)*)(?: : .*)?$", section, re.MULTILINE)]
    parameters = list(inspect.signature(estimator).parameters)
    assert sorted(name for entry in entries for name in entry) == sorted(parameters)
    # parameters that are described together stand where the first of them does
    assert entries == sorted(entries, key=lambda entry: parameters.index(entry[0]))
    assert all(entry == sorted(entry, key=parameters.index) for entry in entries)


@pytest.mark.parametrize("estimator", exported_estimators())
def test_all_but_the_kernel_and_the_weight_go_by_name(estimator):
    parameters = inspect.signature(estimator).parameters.values()
    first, *weight = [given.name for given in parameters if given.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert first == "kernel"
    assert weight in ([], ["gamma"], ["zeta"], ["rho"], ["c"])
    assert all(given.default is not inspect.Parameter.empty for given in parameters)


@pytest.mark.parametrize("estimator", exported_estimators())
def test_what_scikit_learn_takes_for_a_parameter_is_one(estimator):
    """Its checks look for parameters by ``hasattr``, and set them."""
    looked_for = set(re.findall(r'hasattr\(\w+, "(\w+[a-z])"\)', inspect.getsource(estimator_checks)))
    assert {"max_iter", "alpha"} <= looked_for
    model = estimator()
    found = {name for name in looked_for if hasattr(model, name) and not callable(getattr(model, name))}
    assert found <= set(model.get_params(deep=False)) | {"n_features_in_"}
