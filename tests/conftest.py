"""Puts the oracles and the docs on the path, and leaves to the slow tests what the ordinary run need not repeat.

Oracles are slow and obvious programs that the fast ones are compared with.
"""

import gc
import os
import re
import signal
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

#: The quick tests of numbers, which are run with the linear algebra of other processors too (.ci/other_processors):
#: every estimator once, certificates, closed forms, kernels, paths, fusion, and fits of whatever hypothesis finds.
NUMERICAL = (
    "problems/test_another_rounding.py",
    "substrate/test_certificate.py",
    "substrate/test_certificate_rows.py",
    "substrate/test_numbers.py",
    "substrate/test_rounding.py",
    "problems/test_kernel_machines.py",
    "problems/test_leave_one_out_of_models.py",
    "problems/test_ls_svm_laws.py",
    "substrate/fits/test_l1.py",
    "substrate/fits/test_variation.py",
    "substrate/least_squares/test_robust_weights.py",
    "substrate/composition/test_machines.py",
    "substrate/composition/test_span.py",
    "substrate/kernels/test_distances.py",
    "substrate/kernels/test_scales.py",
    "substrate/search/test_bounds.py",
    "substrate/fits/test_l1_path.py",
    "substrate/fits/test_variation_path.py",
    "substrate/test_gram.py",
    "test_hypothesis_fits.py",
)

#: Cases of half a second and more that repeat, at another size or on other data, what quicker ones show.
REPEATED = (
    "problems/test_fused_machines.py::test_other_kernels[Polynomial(degree=2, offset=1.0)-gamma]",
    "problems/test_fused_maximal_variation.py::test_a_heavy_weight_makes_29_exact_and_a_light_one_does_not",
    "problems/test_selection.py::test_selection_on_motorcycle_is_never_worse_than_a_grid",
    "problems/test_sparse_ls_svm.py::test_the_choice_is_the_best_of_many_fits[gamma_range1-folds]",
    "problems/test_verify.py::test_every_problem_passes[OSQP HIGHS ECOS]",
    "substrate/fusion/test_fuse.py::test_targets_in_other_units[1000000000.0]",
    "substrate/fusion/test_validation.py::test_a_partly_linear_model_is_validated_with_its_linear_part",
    "substrate/fusion/test_validation.py::test_folds_of_outputs_by_name",
    "substrate/fusion/test_validation.py::test_one_output_of_several_substrates_is_their_sum",
    "test_trust.py::test_ordinary_data_are_certified_as_they_come[FusedMaximalVariationRegressor-boston]",
    "test_tutorials.py::test_it_prints_what_it_shows[fusers]",
)

for folder in (Path(__file__).parent / "oracles", Path(__file__).parents[1] / "docs"):
    sys.path.insert(0, str(folder))

# these assert too, and say as much as a test when they fail
pytest.register_assert_rewrite("array_homes", "every_model")

# the tests are shared out over all cores: more BLAS threads would only wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# a shell starts its background jobs with interrupts ignored, and tests of interrupts would wait for ever
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from sampled_cases import SAMPLED, is_its_turn, kind_of, sample_cases  # noqa: E402  by the path above, and numpy after the number of threads


@pytest.hookimpl(trylast=True)  # of all cases of the test
def pytest_generate_tests(metafunc):
    """Leave the cases that the ordinary run does not need out of it, or mark them slow for any other.

    That is done before they are collected: a run without the slow ones is spared tens of thousands of them.
    """
    test = metafunc.definition
    if test.get_closest_marker("slow") or test.get_closest_marker("smoke"):
        return
    _mark_left_out(test, [case for case in metafunc._calls if not _is_slow(case)])
    if metafunc.config.getoption("markexpr") == "not slow":
        # a test without any case would be run once, with no values for its parameters
        metafunc._calls = [case for case in metafunc._calls if not _is_slow(case)] or metafunc._calls[:1]


def _mark_left_out(test, shared):
    """Mark the cases slow that are not drawn, of a check of all models or of one that asks for some of its cases."""
    kinds, asked = [kind_of(case.params) for case in shared], test.get_closest_marker("some_cases")
    if not shared or (None in kinds and asked is None):
        return
    kinds = [test.name] * len(shared) if None in kinds else kinds
    chosen = sample_cases([f"{test.name}[{case.id}]" for case in shared], kinds, *(asked.args if asked else ()))
    SAMPLED[f"{test.parent.nodeid}::{test.name}"] = kinds, chosen
    for place, case in enumerate(shared):
        if place not in chosen:
            case.marks.append(pytest.mark.slow.mark)


def _is_slow(case):
    return any(mark.name == "slow" for mark in case.marks)


def pytest_itemcollected(item):
    """Mark the tests that are listed above, and the cases of long tests whose turn is another time."""
    if _is_numerical(item.path):
        item.add_marker(pytest.mark.numerical)
    waits = not (is_its_turn(item.nodeid) or item.get_closest_marker("smoke") or item.config.getoption("every_turn"))
    if waits or item.nodeid.removeprefix("tests/").startswith(REPEATED):
        item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Search for garbage less often, and not among what was collected: that took an eighth of the time of a run."""
    gc.freeze()
    gc.set_threshold(5000, 10, 50)


def pytest_addoption(parser):
    """Let several runs, each with the BLAS kernel of another processor, share the cases of every test, and a run that
    measures times have the long tests whole.
    """
    parser.addoption("--share", default="1/1", metavar="I/N", help="the I-th of N shares of the cases of every test")
    parser.addoption("--model", metavar="NAME", help="all cases that concern one estimator, with its page, or one page")
    parser.addoption("--every-turn", action="store_true", help="all cases of long tests, which take turns otherwise")


def pytest_configure(config):
    """Have every case collected, where the cases of one model are asked for."""
    if config.getoption("model"):
        config.option.markexpr, config.option.every_turn = "", True


def names_of_model(name):
    """Return a pattern of the names of tests that concern an estimator or a page."""
    import problems

    known = {*problems.ESTIMATORS, *problems.COMPOSED, *problems.SPECTRAL, *problems.PAGES}
    if name not in known:
        raise pytest.UsageError(
            f"--model {name}: there is no such estimator or page; they are {', '.join(sorted(known))}"
        )
    page = getattr(getattr(problems, name), "_page", "")
    return re.compile("|".join(rf"(?<![A-Za-z]){word}(?![A-Za-z])" for word in (name, page) if word))


@pytest.hookimpl(trylast=True)  # of what the marks leave
def pytest_collection_modifyitems(config, items):
    """Keep the model or the share that is asked for: every test is in every share, with other cases where it has
    several.
    """
    if config.getoption("model"):
        names = names_of_model(config.getoption("model"))
        concerned = [item for item in items if names.search(item.nodeid)]
        config.hook.pytest_deselected(items=[item for item in items if not names.search(item.nodeid)])
        items[:] = concerned
    part, parts = (int(number) for number in config.getoption("share").split("/"))
    if parts == 1:
        return
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    kept = {id(item) for group in cases.values() for item in (group[part - 1 :: parts] or [group[part % len(group)]])}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


@cache
def _is_numerical(path):
    here = path.relative_to(Path(__file__).parent).as_posix()
    return any(here == chosen or here.startswith(f"{chosen}/") for chosen in NUMERICAL)
