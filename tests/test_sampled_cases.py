"""The ordinary run sees a third of the models in every shared check, and every case of it on two ways in."""

import inspect
from collections import Counter

import pytest
from every_model import COMPONENTS, ESTIMATORS, FUNCTIONS, MODULES, PAIRWISE, parameters_of
from sampled_cases import (
    EVERY_CASE,
    PAGES,
    ROUTES,
    SAMPLED,
    SOME_CASES,
    SOME_WAYS,
    TURNS,
    first,
    is_its_turn,
    kind_of,
    read_long_tests,
    sample_cases,
)

import problems
from problems import LSSVMRegressor, LSSVMRegressorCV
from substrate.arrays import is_device_array
from substrate.kernels import Precomputed

NAMES = [estimator.__name__ for estimator in ESTIMATORS]


PAIRS = [(f"test_any[{case}-{name}]", name) for case in range(29) for name in NAMES]


def draw(pairs, some=SOME_CASES, version="1"):
    names, kinds = zip(*pairs, strict=True)
    return {names[place] for place in sample_cases(names, kinds, some, version)}


@pytest.mark.parametrize("cases", [1, 2, 3, 29, 60])
@pytest.mark.parametrize("some", [SOME_CASES, 2])
def test_a_sample_has_many_models_and_every_case_on_two_ways(cases, some):
    pairs = [(f"test_any[{case}-{name}]", name) for case in range(cases) for name in NAMES]
    chosen = draw(pairs, some)
    counts = {name: sum(case.endswith(f"-{name}]") for case in chosen) for name in NAMES}
    for name, count in counts.items():
        assert count <= (cases if name in EVERY_CASE else min(some, cases))
    expected = min(some, cases) * len(NAMES) / TURNS
    assert abs(sum(counts.values()) - expected - SOME_WAYS * cases) < 3 * expected**0.5 + SOME_WAYS * cases
    for case in range(cases):
        ways = [name for name in NAMES if name in EVERY_CASE and f"test_any[{case}-{name}]" in chosen]
        assert len(ways) >= SOME_WAYS


def test_a_sample_is_the_same_in_every_process_and_another_for_every_check_and_version():
    assert draw(PAIRS) == draw(list(PAIRS))
    assert draw(PAIRS) != draw(PAIRS, version="2")
    others = {name.replace("any", "other") for name in draw(PAIRS)}
    assert draw([(name.replace("any", "other"), kind) for name, kind in PAIRS]) != others


def test_versions_see_every_case_in_time():
    seen = set().union(*(draw(PAIRS, version=str(version)) for version in range(1600)))
    assert seen == {name for name, _ in PAIRS}


def test_long_tests_take_turns_and_others_do_not():
    cases = [f"{test}[{case}]" for test in read_long_tests() for case in range(3)]
    turns = [[is_its_turn(case, str(version)) for case in cases] for version in range(30)]
    assert all(any(of_case) for of_case in zip(*turns, strict=True)), "every case has its turn in time"
    shares = [sum(of_version) / len(cases) for of_version in turns]
    assert max(abs(share - 1 / TURNS) for share in shares) < 0.1
    assert all(is_its_turn("tests/test_any.py::test_any[0]", str(version)) for version in range(30))


def test_there_is_a_model_for_each_way_in():
    whole = {route: getattr(problems, name.split("(")[0]) for route, name in ROUTES.items()}
    assert set(whole.values()) <= {*ESTIMATORS, *COMPONENTS}
    assert whole["a matrix given for the kernel"] in PAIRWISE
    assert kind_of({"estimator": LSSVMRegressor(kernel=Precomputed()), "check": 0}) in EVERY_CASE
    assert "coding" in parameters_of(whole["classes and their codings"])
    assert "coding" in parameters_of(whole["classes in passes"])
    assert "basis" in parameters_of(whole["rows in passes"])
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
    assert kind_of({"estimator": LSSVMRegressor}) == "LSSVMRegressor"
    assert kind_of({"seed": 1, "case": 2}) is None
    assert kind_of({"function": len, "case": 2}) is None
    assert kind_of({"module": inspect, "case": 2}) is None


def test_the_first_values_are_ordinary_and_the_others_slow():
    marks = [[mark.name for mark in value.marks] for value in first(2, range(4))]
    assert marks == [[], [], ["slow"], ["slow"]]
    assert [value.values for value in first(2, range(4))] == [(0,), (1,), (2,), (3,)]


def test_the_checks_of_this_run_have_every_model_among_them():
    """Of what was collected: all files in the ordinary run, this one alone where it is asked for alone."""
    walks = {check: (kinds, chosen) for check, (kinds, chosen) in SAMPLED.items() if len(set(kinds)) > 10}
    if len(walks) < 20:
        pytest.skip("few checks were collected: all of them are in the ordinary run")
    walked = Counter(kind for kinds, _ in walks.values() for kind in set(kinds))
    often = {kind for kind, count in walked.items() if count >= 20}  # none of so many checks: once in a million
    assert often <= {kinds[place] for kinds, chosen in walks.values() for place in chosen}


@pytest.mark.parametrize("estimator", [LSSVMRegressor, LSSVMRegressorCV])
@pytest.mark.parametrize("case", range(7))
def test_this_check_is_sampled(estimator, case, request):
    kinds, chosen = SAMPLED[request.node.nodeid.split("[")[0]]
    assert kinds == ["LSSVMRegressor", "LSSVMRegressorCV"] * 7
    place = 2 * case + (estimator is LSSVMRegressorCV)
    assert (place in chosen) != bool(request.node.get_closest_marker("slow"))


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("option", range(2))
def test_so_many_cases_of_a_check_of_one_model_are_drawn(seed, option, request):
    kinds, chosen = SAMPLED[request.node.nodeid.split("[")[0]]
    assert (len(kinds), len(set(kinds)), len(chosen)) == (8, 1, 3)
    assert (4 * option + seed in chosen) != bool(request.node.get_closest_marker("slow"))
