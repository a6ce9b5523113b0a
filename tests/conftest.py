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

#: The quick tests of numbers, which are run with the linear algebra of other processors too (.ci/other_processors):
#: every estimator once, certificates, closed forms, kernels, paths, fusion, and fits of whatever hypothesis finds.
NUMERICAL = (
    "problems/test_another_rounding.py",
    "substrate/certificates",
    "substrate/closed_form/test_bordered_system.py",
    "substrate/closed_form/test_column_reduction.py",
    "substrate/closed_form/test_column_selection.py",
    "substrate/closed_form/test_component_coordinates.py",
    "substrate/closed_form/test_hat_matrix.py",
    "substrate/closed_form/test_huber_active_set.py",
    "substrate/closed_form/test_l1_active_set.py",
    "substrate/closed_form/test_leave_one_out.py",
    "substrate/closed_form/test_maximal_variation.py",
    "substrate/closed_form/test_pivoted_cholesky.py",
    "substrate/closed_form/test_robust_weights.py",
    "substrate/closed_form/test_saddle_certificate.py",
    "substrate/closed_form/test_saddle_system.py",
    "substrate/closed_form/test_spectrum.py",
    "substrate/closed_form/test_stacked_least_squares.py",
    "substrate/composition/test_machines.py",
    "substrate/composition/test_nearness.py",
    "substrate/fusion/test_parametric_qp.py",
    "substrate/fusion/test_tail.py",
    "substrate/kernels/test_distances.py",
    "substrate/paths/test_block_basis.py",
    "substrate/paths/test_bounds.py",
    "substrate/paths/test_gamma_search.py",
    "substrate/paths/test_l1_homotopy.py",
    "substrate/paths/test_reduced_criteria.py",
    "substrate/paths/test_variation_homotopy.py",
    "substrate/test_gram.py",
    "test_hypothesis_fits.py",
)

for folder in (Path(__file__).parent / "oracles", Path(__file__).parents[1] / "docs"):
    sys.path.insert(0, str(folder))

# these assert too, and say as much as a test when they fail
pytest.register_assert_rewrite("array_homes", "every_model")

# the tests are shared out over all cores: more BLAS threads would only wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

#: One estimator for each way in: all rows at once, rows in passes, folds of validation rows, and their classifiers.
EVERY_CASE = {
    "LSSVMRegressor", "LSSVMClassifier", "SparseLSSVMRegressor", "SparseLSSVMClassifier", "FusedL1SubstrateRegressor",
    "LSSVMRegressorCV",
}  # fmt: skip
#: Cases of a shared check for every other estimator, and scikit-learn's checks of an estimator as it comes.
SOME_CASES, SOME_CHECKS = 3, 12


@pytest.hookimpl(tryfirst=True)  # before -m deselects what is slow
def pytest_collection_modifyitems(items):
    products = defaultdict(list)
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if "estimator" in parameters and len(parameters) > 1 and not item.get_closest_marker("slow"):
            products[item.path, item.function.__name__, _kind(parameters["estimator"])].append(item)
    for number, ((_, _, kind), cases) in enumerate(products.items()):
        some = SOME_CHECKS if kind.endswith(("()", "(kernel=Linear())")) else SOME_CASES
        if kind.removesuffix("()") not in EVERY_CASE and len(cases) > some:
            # another few for each estimator, so that between them they see all
            kept = {(number + k * len(cases) // some) % len(cases) for k in range(some)}
            for place in set(range(len(cases))) - kept:
                cases[place].add_marker(pytest.mark.slow)


def _kind(estimator):
    """What to sample within: the class, or for scikit-learn's checks the estimator with its parameters."""
    return estimator.__name__ if inspect.isclass(estimator) else repr(estimator)


def pytest_itemcollected(item):
    """Mark the tests of the files and folders above."""
    here = item.path.relative_to(Path(__file__).parent).as_posix()
    if any(here == chosen or here.startswith(f"{chosen}/") for chosen in NUMERICAL):
        item.add_marker(pytest.mark.numerical)
