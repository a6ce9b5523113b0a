"""Puts on the path the oracles, slow and obvious programs that the fast ones are compared with, and the docs."""

import os
import sys
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
    "substrate/fusion/test_parametric_qp.py",
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

# the tests are shared out over all cores: more BLAS threads would only wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_itemcollected(item):
    """Mark the tests of the files and folders above."""
    here = item.path.relative_to(Path(__file__).parent).as_posix()
    if any(here == chosen or here.startswith(f"{chosen}/") for chosen in NUMERICAL):
        item.add_marker(pytest.mark.numerical)
