"""The fitted attributes that a model file may hold: those of every estimator, each with its kind of value.

Like :mod:`problems.estimators.saved_parameters`, a list of what may be there: an attribute that it does not name is
refused, on writing and on reading. Numbers are finite but for bounds and scores, which may be unknown.
"""

from collections.abc import Mapping

from problems.estimators.allowed import (
    Allowed,
    array,
    certificate,
    either,
    entries,
    flag,
    kernel,
    labels,
    many,
    nothing,
    number,
    recorded,
    sentence,
    sparse,
    whole,
    word,
)  # fmt: skip
from problems.estimators.records import PruningStep, ReducedReweighting, Reweighting

__all__ = ["FITTED"]

_Kinds = dict[str, Allowed]

_NUMBER, _WHOLE, _FLAG = number(), whole(), flag()
_UNBOUNDED = number(unbounded=True)
_VECTOR, _MATRIX, _EACH = array(), array(dimensions=(2,)), array(dimensions=(1, 2))
_EVERY: _Kinds = {
    "bias_": either(_NUMBER, array(dimensions=(0, 1))), "certificate_": certificate(),
    "feature_names_in_": labels("UO"), "kernel_": kernel(), "n_features_in_": whole(1), "support_": array("iu"),
    "support_values_": array(dimensions=(1, 2, 3)), "support_vectors_": either(_MATRIX, sparse()),
}  # fmt: skip
_CLASSES: _Kinds = {"classes_": labels(), "code_book_": _MATRIX}
_CODES: _Kinds = _CLASSES | {"support_codes_": _EACH}
#: Where support values cannot carry the answer of a kernel of finite rank.
_PRIMAL: _Kinds = {"primal_weights_": _MATRIX, "primal_center_": _VECTOR, "primal_bias_": _VECTOR}
_RIDGE: _Kinds = {"ridge_": _EACH, "n_iter_": _WHOLE, **_PRIMAL}
_CHOSEN: _Kinds = {
    "gamma_": either(_NUMBER, _VECTOR),
    "criterion_": either(_UNBOUNDED, array(unbounded=True)),  # beyond 1e154 a square is infinite
    "gamma_range_": _VECTOR,
    "criterion_lower_bound_": either(_UNBOUNDED, array(unbounded=True)),
    "cv_results_": entries({
        "params": many(entries({"kernel": kernel(), "gamma": either(_NUMBER, many(_NUMBER))})),
        "param_kernel": many(kernel()),
        "param_gamma": many(either(_NUMBER, many(_NUMBER))),
        "mean_fit_time": _VECTOR,
        "std_fit_time": _VECTOR,
        "split#_test_score": array(unbounded=True),
        "mean_test_score": array(dimensions=(1, 2), unbounded=True),
        "std_test_score": array(dimensions=(1, 2), unbounded=True),
        "rank_test_score": array("iu"),
        "lower_bound": array(dimensions=(1, 2), unbounded=True),
        "n_intervals": array("iu", (1, 2)),
    }),
}  # fmt: skip
_NORMS: _Kinds = {"component_norms_": _EACH, "maximal_variation_": _EACH}
_PROOF: _Kinds = {
    "best_parameter_": _NUMBER, "lower_bound_": _UNBOUNDED, "validation_error_": _UNBOUNDED,
    "path_": entries({
        "parameter": word("gamma", "zeta", "rho"), "values": array(unbounded=True),
        "validation_errors": array(unbounded=True), "coverage": many(_UNBOUNDED), "holes": many(many(_UNBOUNDED)),
        "stop": sentence(), "maximal_variation": array(dimensions=(2, 3)),
    }),
}  # fmt: skip
_REDUCED: _Kinds = {
    "basis_indices_": either(nothing(), array("iu")), "n_rows_": _WHOLE, "rank_": _WHOLE,
    "reconstruction_error_": _NUMBER,
}  # fmt: skip
_LEVERAGE: _Kinds = {"leverage_factor_": _MATRIX, "leverage_offset_": _VECTOR, "degrees_of_freedom_": _NUMBER}
_FEW: _Kinds = {"n_support_": _WHOLE}
#: The rows that train, where the support does not tell.
_TRAINED: _Kinds = {"training_rows_": array("iu")}
_VARIATION: _Kinds = {"component_support_": array("b"), "maximal_variation_": _EACH}
_PRUNING: _Kinds = {
    "gamma_": either(_NUMBER, _VECTOR), "weights_": _VECTOR, "step_": _WHOLE,
    "pruning_path_": many(recorded(PruningStep, {
        "rows": array("iu"), "support_values": _EACH, "bias": either(_NUMBER, _VECTOR), "weights": _VECTOR,
        "score": _UNBOUNDED, "gamma": either(_NUMBER, _VECTOR), "kernel": kernel(), "retuned": _FLAG,
    }), 1),
}  # fmt: skip
_REWEIGHTED: _Kinds = {
    "bias": _NUMBER, "support_values": _VECTOR, "scale": _UNBOUNDED, "change": _UNBOUNDED,
}  # fmt: skip
_OFFERED: _Kinds = {"candidates_": either(_MATRIX, sparse()), "zeta_max_": _NUMBER}

FITTED: Mapping[str, _Kinds] = {
    "ALSSVMClassifier": _EVERY | _CODES | _FEW | {"n_epochs_": _WHOLE, "residual_": _UNBOUNDED},
    "AdaPinvClassifier": _EVERY | _CODES | _FEW | {"n_epochs_": _WHOLE, "residual_": _UNBOUNDED},
    "ComponentwiseLSSVMClassifier": _EVERY | _CODES | _RIDGE | _NORMS,
    "ComponentwiseLSSVMRegressor": _EVERY | _RIDGE | _NORMS,
    "FusedL1SubstrateClassifier": _EVERY | _CODES | _PROOF | _FEW | _TRAINED,
    "FusedL1SubstrateRegressor": _EVERY | _PROOF | _FEW | _TRAINED,
    "FusedLSSVMClassifier": _EVERY | _CODES | _PROOF | _PRIMAL,
    "FusedLSSVMRegressor": _EVERY | _PROOF | _PRIMAL,
    "FusedLeastSquaresRegressor": _EVERY | {"validation_error_": _UNBOUNDED},
    "FusedMaximalVariationClassifier": _EVERY | _CODES | _PROOF | {"maximal_variation_": _EACH},
    "FusedMaximalVariationRegressor": _EVERY | _PROOF | {"maximal_variation_": _EACH},
    "HuberLSSVMRegressor": _EVERY | {"delta_": _NUMBER, "outliers_": array("iu")},
    "IPLSSVMClassifier": _EVERY | _CODES | _FEW,
    "L1SubstrateClassifier": _EVERY | _CODES | _FEW,
    "L1SubstrateRegressor": _EVERY | _FEW | {"zeta_max_": _NUMBER},
    "LS2SVMClassifier": _EVERY | _CODES | _FEW | {"threshold_": _NUMBER},
    "LSSVMClassifier": _EVERY | _CODES | _RIDGE,
    "LSSVMClassifierCV": _EVERY | _CODES | _RIDGE | _CHOSEN,
    "LSSVMRegressor": _EVERY | _RIDGE,
    "LSSVMRegressorCV": _EVERY | _RIDGE | _CHOSEN,
    "MaximalVariationClassifier": _EVERY | _CODES | _VARIATION,
    "MaximalVariationRegressor": _EVERY | _VARIATION,
    "PrunedLSSVMClassifier": _EVERY | _CODES | _PRUNING,
    "PrunedLSSVMRegressor": _EVERY | _PRUNING,
    "RobustLSSVMRegressor": _EVERY | {
        "history_": many(recorded(Reweighting, _REWEIGHTED | {"weights": _VECTOR}), 1), "ridge_": _EACH,
        "scale_": _NUMBER, "weights_": _VECTOR,
    } | _PRIMAL,
    "RobustSparseLSSVMRegressor": _EVERY | _REDUCED | {
        "history_": many(recorded(ReducedReweighting, _REWEIGHTED | {"mass": _NUMBER}), 1), "scale_": _NUMBER,
    },
    "SparseComponentwiseLSSVMRegressor": _EVERY | _REDUCED | _LEVERAGE | _NORMS,
    "SparseL1SubstrateClassifier": _EVERY | _CLASSES | _REDUCED | _FEW | _OFFERED,
    "SparseL1SubstrateRegressor": _EVERY | _REDUCED | _FEW | _OFFERED | {
        "path_": sparse(), "path_bias_": _VECTOR, "zetas_": _VECTOR,
    },
    "SparseLSSVMClassifier": _EVERY | _CLASSES | _REDUCED | _LEVERAGE,
    "SparseLSSVMClassifierCV": _EVERY | _CLASSES | _REDUCED | _LEVERAGE | _CHOSEN,
    "SparseLSSVMRegressor": _EVERY | _REDUCED | _LEVERAGE,
    "SparseLSSVMRegressorCV": _EVERY | _REDUCED | _LEVERAGE | _CHOSEN,
    "SparseMaximalVariationRegressor": _EVERY | _REDUCED | {"maximal_variation_": _EACH, "n_bounded_": _WHOLE},
    "SubstrateRegressor": _EVERY | _PRIMAL | {"constants_": _VECTOR},
}  # fmt: skip
