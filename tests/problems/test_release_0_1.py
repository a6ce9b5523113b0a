"""Files that release 0.1 wrote, of twelve rows of a sine: they load under the names of today and predict as then."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import load
from substrate.errors import ModelFileWarning

FILES = Path(__file__).parent / "release_0_1"
X = np.arange(12.0)[:, None]
#: The first three outputs of then, the class of today, and parameters and attributes by the names of today.
THEN = {
    "fused": (
        [1.1340091365941163e-10, 0.8414709846428161, 0.9092974268540273],
        "LSSVMRegressorCV",
        {"cv": None, "loss": "squared", "validation_fraction": 0.25, "gap": 1e-3},
        {"gamma_", "criterion_", "criterion_lower_bound_", "path_", "gamma_range_", "ridge_"},
    ),
    "fused_classes": (
        [-0.48776161530023854, 0.49317588977253296, 1.046512532468313],
        "LSSVMClassifierCV",
        {"cv": "loo", "loss": "squared"},
        {"gamma_", "criterion_", "criterion_lower_bound_", "path_"},
    ),
    "folds": (
        [1.5209952741734867e-10, 0.8414709845403863, 0.9092974270071068],
        "LSSVMRegressorCV",
        {"cv": 5, "loss": "squared"},
        {"gamma_", "criterion_", "criterion_lower_bound_"},
    ),
    "misclassification": (
        [-0.24749067670065766, 0.3718125682681925, 0.7359062225811187],
        "LSSVMClassifierCV",
        {"cv": "loo", "loss": "misclassification"},
        {"gamma_", "criterion_"},
    ),
    "sparse_gcv": (
        [-0.20591003789228224, 0.6402194266915744, 1.0172063942723633],
        "SparseLSSVMRegressorCV",
        {"cv": "gcv", "basis__reconstruction_tolerance": 1e-3},
        {"gamma_", "criterion_"},
    ),
    "pruned": (
        [0.2137903426821834, 0.4854662604635439, 0.4700760186442178],
        "PrunedLSSVMRegressor",
        {"cv": 4, "growth": 0.3},
        {"pruning_path_"},
    ),
    "echelon": (
        [-0.2131796609367559, 0.3509152017318199, 0.6813500616741391],
        "LS2SVMClassifier",
        {"threshold": 0.3},
        {"threshold_"},
    ),
    "fused_zeta": (
        [0.0033150092473755166, 0.8337700936722402, 0.9191693943801117],
        "FusedL1SubstrateRegressor",
        {"cv": 3, "zeta_min": None},
        {"zeta_", "criterion_", "criterion_lower_bound_", "path_"},
    ),
    "sparse_zeta": (
        [0.06353758046930458, 0.7738155437152112, 0.7963291327327955],
        "SparseL1SubstrateRegressor",
        {"basis__reconstruction_tolerance": 0.0, "basis__rule": "kmeans++"},
        {"support_values_path_", "bias_path_", "zetas_"},
    ),
    "sparse_components": (
        [0.10176236693508678, 0.3851716991208619, 0.47302775748644943],
        "SparseComponentwiseLSSVMRegressor",
        {"relevance": 0.2, "basis__reconstruction_tolerance": 0.0},
        {"component_norms_"},
    ),
}


@pytest.mark.parametrize("name", THEN)
def test_a_file_of_release_0_1_is_the_model_that_it_was(name, tmp_path):
    outputs, estimator, parameters, attributes = THEN[name]
    with pytest.warns(ModelFileWarning, match=r"written by release 0\.1"):
        model = load(FILES / f"{name}.npz")
    assert type(model).__name__ == estimator
    assert model.get_params().items() >= parameters.items()
    assert attributes <= vars(model).keys()
    assert "best_parameter_" not in vars(model)
    if "path_" in attributes:
        assert model.path_["criterion"].shape == model.path_["values"].shape
    said = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    assert_allclose(said[:3], outputs, rtol=1e-9, atol=1e-12)
    model.save(tmp_path / "m.npz")
    assert_allclose(load(tmp_path / "m.npz").predict(X)[:3] == model.predict(X)[:3], True)


def test_every_file_is_looked_at():
    assert {path.stem for path in FILES.glob("*.npz")} == set(THEN)
