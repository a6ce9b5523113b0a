"""The search by slopes: its derivatives belong to the criterion at the best gamma, and it improves on its start."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from problems import LSSVMClassifierCV, LSSVMRegressorCV
from problems.estimators.chosen.kernel_search import JointCriterion, Task
from substrate.basis import Basis
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Linear, as_kernel
from substrate.left_out.leave_one_out import LeftOutBlocks

RNG = np.random.default_rng(3)
N = 24
X = RNG.normal(size=(N, 3))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.normal(size=N)
CLASS = np.digitize(X[:, 0] + 0.2 * RNG.normal(size=N), [-0.5, 0.5])
TARGETS = {
    "one output": (Y[:, None], False),
    "two outputs": (np.column_stack([Y, 50.0 * X[:, 1] ** 2 + RNG.normal(size=N)]), False),
    "one against the rest": (np.where(CLASS[:, None] == np.arange(3), 1.0, -1.0), True),
    "one against one": (
        np.column_stack(
            [np.where(a == CLASS, 1.0, np.where(b == CLASS, -1.0, 0.0)) for a, b in ((0, 1), (0, 2), (1, 2))]
        ),
        True,
    ),
}
FOLDS = tuple((np.setdiff1d(np.arange(N), fold), fold) for fold in np.array_split(RNG.permutation(N), 3))
WEIGHTS = RNG.uniform(0.2, 4.0, size=N)
WEIGHTS /= WEIGHTS.mean()
STEP, STENCIL = 2e-3, ((-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0))


def task_of(criterion, targets, weighted=False, gammas=None):
    codes, pooled = TARGETS[targets]
    splits = FOLDS if criterion == "folds" else ()
    blocks = LeftOutBlocks.centred(N, 2) if criterion == "blocks" else None
    return Task(X, codes, criterion, splits, gammas, 1e-4, pooled, WEIGHTS if weighted else None, blocks=blocks)


def assert_slopes_are_differences(kernel, task):
    joint = JointCriterion.of(kernel, task)
    x, t = np.log(list(kernel.scales().values())), float(np.clip(-1.5, *joint.ends))

    def at(z):
        moved = dict(zip(kernel.scales(), np.exp(z[: x.size]).tolist(), strict=True))
        return joint.at(kernel.with_scales(moved), z[-1])

    (value, slope, _), differences = at(np.append(x, t)), []
    for column in np.eye(x.size + 1):
        values = [at(np.append(x, t) + k * STEP * column)[0] for k, _ in STENCIL]
        differences.append(sum(w * each for (_, w), each in zip(STENCIL, values, strict=True)) / (12.0 * STEP))
    assert_allclose(slope, differences, rtol=1e-7, atol=1e-7 * max(np.abs(differences).max(), value))


@pytest.mark.parametrize(
    ("criterion", "targets"),
    [
        ("loo", "two outputs"),
        ("gcv", "one against one"),
        ("evidence", "two outputs"),
        ("folds", "two outputs"),
        ("blocks", "one output"),
    ],
)
def test_slopes_of_several_machines_and_of_weighted_rows(criterion, targets):
    assert_slopes_are_differences(RBF((1.7, 2.0, 0.9)), task_of(criterion, targets, weighted=True))


DATA = np.random.default_rng(11)
WIDE = DATA.uniform(size=(70, 4))
TARGET = np.sin(6.0 * WIDE[:, 0]) + 2.0 * WIDE[:, 1] ** 2 + 0.1 * DATA.normal(size=70)


def fitted(points=WIDE, y=TARGET, kernel=None, **rules):
    rules = {"cv": "evidence", "search": "gradient"} | rules
    return LSSVMRegressorCV(RBF("each") if kernel is None else kernel, **rules).fit(points, y)


def test_widths_of_columns_without_effect_grow_and_stay_finite():
    model = fitted()
    start, widths = RBF("each").resolved(WIDE).sigma, model.kernel_.sigma
    assert widths[2] > 10.0 * start[2]
    assert widths[3] > 10.0 * start[3]
    assert widths[0] < 5.0 * start[0]
    assert max(widths) < 1e6
    alone = LSSVMRegressorCV(RBF("each"), cv="evidence").fit(WIDE, TARGET)
    assert model.criterion_ < 0.5 * alone.criterion_
    assert model.certificate_.holds
    assert "local" in dict(model.certificate_.record)["kernels"]
    assert model.kernel == RBF("each"), "the parameter is left alone"
    assert model.criterion_lower_bound_ <= model.criterion_
    again = LSSVMRegressorCV(model.kernel_, cv="evidence").fit(WIDE, TARGET)
    assert_allclose(again.criterion_, model.criterion_, rtol=1e-12)
    assert_allclose(again.gamma_, model.gamma_, rtol=1e-9)


@pytest.mark.parametrize("most", [1, 2, 9])
def test_the_budget_is_kept_and_no_result_is_worse_than_the_start(most):
    model = fitted(max_evaluations=most)
    scores = model.cv_results_["mean_test_score"]
    assert len(scores) <= most + 1
    assert len(set(model.cv_results_["param_kernel"])) == len(scores), "no kernel is judged twice"
    assert model.criterion_ == -scores.max()


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_units_of_the_columns_do_not_matter(unit):
    units = np.array([unit, 1.0, 1.0 / unit, 1.0])
    plain, other = fitted(max_evaluations=16), fitted(WIDE * units, max_evaluations=16)
    assert_allclose(other.criterion_, plain.criterion_, rtol=1e-4)
    assert_allclose(other.kernel_.sigma[:2] / units[:2], plain.kernel_.sigma[:2], rtol=0.05)


@pytest.mark.parametrize("coding", ["one_vs_rest", "minimum_output"])
def test_classifiers_search_one_kernel_for_all_machines(coding):
    labels = np.digitize(WIDE[:, 0], [0.3, 0.6])
    model = LSSVMClassifierCV(RBF("each"), search="gradient", coding=coding, max_evaluations=20).fit(WIDE, labels)
    start = LSSVMClassifierCV(RBF("each"), coding=coding).fit(WIDE, labels)
    assert model.criterion_ < 0.8 * start.criterion_
    assert model.kernel_.sigma[0] < min(model.kernel_.sigma[1:])
    assert model.certificate_.holds


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"kernel": Linear()}, "no parameter to search"),
        ({"kernel": "precomputed"}, "no parameter to search"),
        ({"kernel": as_kernel(lambda X, Z: X @ Z.T)}, "no parameter to search"),
        ({"points": csr_array(WIDE)}, r"dense \(X.toarray\(\)\)"),
        ({"search": "newton"}, "search must be None or 'gradient', received 'newton'"),
    ],
)
def test_what_has_no_slopes_is_refused_with_the_next_step(rules, message):
    if rules.get("kernel") == "precomputed":
        rules = rules | {"points": WIDE @ WIDE.T}
    with pytest.raises(DeclarationError, match=message):
        fitted(**rules)


@pytest.mark.parametrize("cv", ["evidence", "loo", 3])
def test_on_a_basis_a_kernel_is_searched_by_some_rows_and_judged_by_all(cv, monkeypatch):
    monkeypatch.setattr("problems.estimators.chosen.basis_selection._SAMPLE", 50)
    rules = {"basis": Basis(30, random_state=0), "cv": cv}
    start = LSSVMRegressorCV(RBF("each"), **rules).fit(WIDE, TARGET)
    model = LSSVMRegressorCV(RBF("each"), **rules, search="gradient").fit(WIDE, TARGET, sample_weight=np.ones(70))
    assert model.criterion_ < 0.8 * start.criterion_
    assert min(model.kernel_.sigma[2:]) > 2.0 * max(model.kernel_.sigma[:2])
    assert model.certificate_.holds
    assert dict(model.certificate_.record)["kernels"].endswith("by 50 of 70 rows")
    again = LSSVMRegressorCV(model.kernel_, **rules).fit(WIDE, TARGET)
    assert_allclose(again.criterion_, model.criterion_, rtol=1e-9)
    with pytest.raises(DeclarationError, match=r"dense \(X.toarray\(\)\)"):
        LSSVMRegressorCV(search="gradient", basis="feature_vectors").fit(csr_array(WIDE), TARGET)
