"""The ordinary run sees every model in every shared check, and every case of it on a model for each way in."""

import inspect

import pytest
from every_model import ESTIMATORS, FUNCTIONS, MODULES, PAIRWISE, parameters_of
from sampled_cases import EVERY_CASE, PAGES, ROUTES, SAMPLED, SOME_CASES, first, kind_of, sampled

import problems
from problems import LSSVMRegressor, SubstrateRegressor
from substrate.kernels import Precomputed
from substrate.namespaces import is_device_array

NAMES = [estimator.__name__ for estimator in ESTIMATORS]


@pytest.mark.parametrize("cases", [1, 2, 3, 29, 60])
@pytest.mark.parametrize("some", [SOME_CASES, 2])
def test_a_sample_has_every_model_every_case_and_all_of_one_model_for_each_way_in(cases, some):
    pairs = [(name, case) for case in range(cases) for name in NAMES]
    chosen = [pairs[place] for place in sampled("test_any", [name for name, _ in pairs], some)]
    seen = {name: {case for other, case in chosen if other == name} for name in NAMES}
    assert all(len(found) == (cases if name in EVERY_CASE else min(some, cases)) for name, found in seen.items())
    others = [found for name, found in seen.items() if name not in EVERY_CASE]
    assert len(set().union(*others)) == min(cases, some * len(others)), (
        "between them the others see as much as they can"
    )


def test_a_sample_is_the_same_in_every_process_and_another_for_every_check():
    kinds = NAMES * 40
    assert sampled("test_one", kinds) == sampled("test_one", list(kinds))
    assert sampled("test_one", kinds) != sampled("test_another", kinds)


def test_there_is_a_model_for_each_way_in():
    whole = {route: getattr(problems, name.split("(")[0]) for route, name in ROUTES.items()}
    assert set(whole.values()) <= set(ESTIMATORS)
    assert whole["a matrix given for the kernel"] in PAIRWISE
    assert kind_of({"estimator": LSSVMRegressor(kernel=Precomputed()), "check": 0}) in EVERY_CASE
    assert "coding" in parameters_of(whole["classes and their codings"])
    assert "coding" in parameters_of(whole["classes in passes"])
    assert {"basis", "passes"} <= set(parameters_of(whole["rows in passes"]))
    assert "cv" in parameters_of(whole["folds"])
    assert "X_val" in inspect.signature(whole["rows for validation"].fit).parameters
    assert set(PAGES) <= set(MODULES)
    assert {kind for kind in EVERY_CASE if "." in kind} >= {name for name in FUNCTIONS if name.split(".")[0] in PAGES}


def test_arrays_on_a_device_are_tried_on_the_model_that_is_tried_whole():
    strict = pytest.importorskip("array_api_strict")
    X = strict.asarray([[0.0], [1.0], [2.0], [4.0]])
    model = getattr(problems, ROUTES["arrays on a device"])().fit(X, X[:, 0])
    assert is_device_array(model.predict(X))


def test_what_is_sampled():
    assert kind_of({"estimator": LSSVMRegressor, "case": 1}) == "LSSVMRegressor"
    assert kind_of({"estimator": LSSVMRegressor(), "check": 1}) == "LSSVMRegressor"
    assert kind_of({"module": problems.ls_svm_regression, "case": 1}) == "ls_svm_regression"
    assert kind_of({"function": "ls_svm_regression.declare", "case": 1}) == "ls_svm_regression.declare"
    assert kind_of({"estimator": LSSVMRegressor}) is None, "one case each: there is nothing to leave out"
    assert kind_of({"seed": 1, "case": 2}) is None
    assert kind_of({"function": len, "case": 2}) is None
    assert kind_of({"module": inspect, "case": 2}) is None


def test_the_first_values_are_ordinary_and_the_others_slow():
    marks = [[mark.name for mark in value.marks] for value in first(2, range(4))]
    assert marks == [[], [], ["slow"], ["slow"]]
    assert [value.values for value in first(2, range(4))] == [(0,), (1,), (2,), (3,)]


def test_every_check_of_this_run_has_a_case_of_every_model_and_all_of_some():
    """Of what was collected: all files in the ordinary run, this one alone where it is asked for alone."""
    for check, (kinds, chosen) in SAMPLED.items():
        assert {kinds[place] for place in chosen} == set(kinds), check
        assert {place for place, kind in enumerate(kinds) if kind in EVERY_CASE} <= chosen, check


@pytest.mark.parametrize("estimator", [LSSVMRegressor, SubstrateRegressor])
@pytest.mark.parametrize("case", range(7))
def test_this_check_is_sampled(estimator, case, request):
    kinds, chosen = SAMPLED[request.node.nodeid.split("[")[0]]
    assert kinds == ["LSSVMRegressor", "SubstrateRegressor"] * 7
    place = 2 * case + (estimator is SubstrateRegressor)
    assert (place in chosen) != bool(request.node.get_closest_marker("slow"))
