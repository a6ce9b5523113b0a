"""Puts the oracles and the docs on the path, and leaves to the slow tests what the ordinary run need not repeat.

Oracles are slow and obvious programs that the fast ones are compared with.
"""

import os
import sys
from functools import cache
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
    "substrate/composition/test_pivoted_features.py",
    "substrate/composition/test_span.py",
    "substrate/composition/test_structured_solution.py",
    "substrate/fusion/test_parametric_qp.py",
    "substrate/fusion/test_tail.py",
    "substrate/kernels/test_distances.py",
    "substrate/paths/test_block_basis.py",
    "substrate/paths/test_bounds.py",
    "substrate/paths/test_gamma_search.py",
    "substrate/paths/test_l1_homotopy.py",
    "substrate/paths/test_variation_homotopy.py",
    "substrate/reduced/test_criteria.py",
    "substrate/test_gram.py",
    "test_hypothesis_fits.py",
)

for folder in (Path(__file__).parent / "oracles", Path(__file__).parents[1] / "docs"):
    sys.path.insert(0, str(folder))

# these assert too, and say as much as a test when they fail
pytest.register_assert_rewrite("array_homes", "every_model")

# the tests are shared out over all cores: more BLAS threads would only wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from sampled_cases import SAMPLED, kind_of, sampled  # noqa: E402  by the path above, and numpy after the number of threads


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector, name):
    """Leave the cases that the ordinary run does not need out of it, or mark them slow for any other."""
    made = yield
    if not isinstance(made, list):
        return made
    shared = [item for item in made if hasattr(item, "callspec") and not item.get_closest_marker("slow")]
    kinds = [kind_of(item.callspec.params) for item in shared]
    if not kinds or None in kinds:
        return made
    asked = shared[0].get_closest_marker("some_cases")
    chosen = sampled(name, kinds, *(asked.args if asked else ()))
    SAMPLED[f"{collector.nodeid}::{name}"] = kinds, chosen
    for place, item in enumerate(shared):
        if place not in chosen:
            item.add_marker(pytest.mark.slow)
    # a run without the slow ones is spared the collection of thousands of them
    ordinary = collector.config.getoption("markexpr") == "not slow"
    return [item for item in made if not (ordinary and item.get_closest_marker("slow"))]


def pytest_itemcollected(item):
    """Mark the tests of the files and folders above."""
    if _is_numerical(item.path):
        item.add_marker(pytest.mark.numerical)


@cache
def _is_numerical(path):
    here = path.relative_to(Path(__file__).parent).as_posix()
    return any(here == chosen or here.startswith(f"{chosen}/") for chosen in NUMERICAL)
