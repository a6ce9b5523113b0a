"""Puts the oracles and the docs on the path, and keeps a fixed covering of what walks over all models.

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
    "substrate/test_robust_weights.py",
    "substrate/declare/test_machines.py",
    "substrate/declare/test_span.py",
    "substrate/kernels/test_distances.py",
    "substrate/kernels/test_scales.py",
    "substrate/select/test_bounds.py",
    "substrate/fits/test_l1_path.py",
    "substrate/fits/test_variation_path.py",
    "substrate/operators/test_gram.py",
    "test_hypothesis_fits.py",
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

from coverings import cover_product, cover_walk  # noqa: E402  by the path above, and numpy after the number of threads


@pytest.hookimpl(trylast=True)  # of all cases of the test
def pytest_generate_tests(metafunc):
    """Keep a fixed covering of a check that walks over all models, and of a product that is marked so."""
    if metafunc.config.getoption("all") or metafunc.config.getoption("model"):
        return
    if metafunc.definition.get_closest_marker("covering"):
        metafunc._calls = cover_product(metafunc._calls)
    else:
        metafunc._calls = cover_walk(metafunc._calls)


def pytest_itemcollected(item):
    """Mark the tests that are listed above."""
    if _is_numerical(item.path):
        item.add_marker(pytest.mark.numerical)


def pytest_collection_finish():
    """Search for garbage less often, and not among what was collected: that took an eighth of the time of a run."""
    gc.freeze()
    gc.set_threshold(5000, 10, 50)


def pytest_addoption(parser):
    """Let a run have whole products, and several runs, each with the BLAS kernel of another processor, share the cases
    of every test.
    """
    parser.addoption("--all", action="store_true", help="every combination where a fixed covering is run otherwise")
    parser.addoption("--model", metavar="NAME", help="all cases that concern one estimator, with its page, or one page")
    parser.addoption("--share", default="1/1", metavar="I/N", help="the I-th of N shares of the cases of every test")


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
