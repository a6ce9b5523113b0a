"""What estimators state of themselves is so: their page, their title, their solvers, what they choose."""

from every_model import ESTIMATORS, is_additive, make_data, make_estimator, over_estimators, parameters_of

import problems
from substrate.kernels import Linear


@over_estimators
def test_the_page_is_one_of_the_pages(estimator):
    assert estimator._page in problems.PAGES


#: Pages that no estimator states: variants of another page, and what only ``fuse`` declares.
ALONE = {
    "confined_fusion",
    "constrained_ls_svm",
    "kernel_pls",  # a method of KernelCCA
    "decoupled_maximal_variation",
    "fused_least_squares",
    "leave_block_out",
    "maximal_variation_kkt",
    "narx_ls_svm",
    "partially_linear_ls_svm",
    "penalized_fusion",
    # machines that the parameters of the LS-SVM make
    "componentwise_ls_svm",
    "ls_svm_substrate",
    # machines that a basis makes
    "reduced_basis_ls_svm",
    "reduced_l1_substrate",
    "reduced_maximal_variation",
    "symmetric_ls_svm",
    "weighted_ls_svm",
}


def test_hardly_a_page_has_no_estimator():
    stated = {estimator._page for estimator in (*ESTIMATORS, *(getattr(problems, name) for name in problems.SPECTRAL))}
    assert set(problems.PAGES) - stated == ALONE, "name a page without an estimator in ALONE"


@over_estimators
def test_certificates_have_the_title_that_is_stated(estimator):
    X, y = make_data(estimator)
    model = make_estimator(estimator, **({"kernel": Linear()} if is_additive(estimator) else {})).fit(X, y)
    assert model.certificate_.title == estimator._title
    assert model.certify(X, y).title == f"{estimator._title}, checked again"


def test_titles_tell_estimators_apart():
    titles = [estimator._title for estimator in ESTIMATORS]
    assert len(set(titles)) == len(titles)


@over_estimators
def test_what_is_chosen_is_not_given(estimator):
    assert estimator._chooses is None or estimator._chooses not in parameters_of(estimator)
