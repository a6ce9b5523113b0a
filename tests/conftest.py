"""Puts the oracles and the docs on the path, and thins out the product of estimators and shared cases.

Oracles are slow and obvious programs that the fast ones are compared with. A check that all estimators share, such as
the refusal of a bad X, is one piece of code: every case of it is run on one estimator for each way into that code, and
a few cases on every other estimator, which shows that it goes that way. The whole product runs under ``-m slow``.
"""

import inspect
import os
import sys
from collections import defaultdict
from pathlib import Path

import pytest

for folder in (Path(__file__).parent / "oracles", Path(__file__).parents[1] / "docs"):
    sys.path.insert(0, str(folder))

# the tests are shared out over all cores: more BLAS threads would only wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

#: One estimator for each way in: all rows at once, rows in passes, folds of validation rows, and their classifiers.
EVERY_CASE = {
    "LSSVMRegressor", "LSSVMClassifier", "SparseLSSVMRegressor", "SparseLSSVMClassifier", "FusedL1SubstrateRegressor",
    "LSSVMRegressorCV",
}  # fmt: skip
#: Cases of a shared check for every other estimator.
SOME_CASES = 3


@pytest.hookimpl(tryfirst=True)  # before -m deselects what is slow
def pytest_collection_modifyitems(items):
    products = defaultdict(list)
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if "estimator" in parameters and len(parameters) > 1 and not item.get_closest_marker("slow"):
            products[item.path, item.function.__name__, _kind(parameters["estimator"])].append(item)
    for number, ((_, _, kind), cases) in enumerate(products.items()):
        if kind not in EVERY_CASE and len(cases) > SOME_CASES:
            # another few for each estimator, so that between them they see all
            kept = {(number + k * len(cases) // SOME_CASES) % len(cases) for k in range(SOME_CASES)}
            for place in set(range(len(cases))) - kept:
                cases[place].add_marker(pytest.mark.slow)


def _kind(estimator):
    """What to sample within: the class; of scikit-learn's checks, only estimators with a parameter of their own."""
    if inspect.isclass(estimator):
        return estimator.__name__
    # an estimator as it comes goes through all of scikit-learn's checks
    return "LSSVMRegressor" if repr(estimator).endswith(("()", "(kernel=Linear())")) else repr(estimator)
