"""The parameters and fitted attributes that a model file may hold: those of every estimator, each with its kind.

These are lists of what is allowed, not of what is forbidden: a parameter or attribute that is not named here is refused
on writing and on reading, and an estimator that is not named cannot be saved. Numbers are finite except for bounds and
scores, which may be unknown. Words are those that the estimator knows. Parameters that act outside the model (executor,
files, memory, output) are in :data:`OUTSIDE` and never in a file.
"""

from collections.abc import Mapping

from problems.estimators.shared.allowed import (
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
    pairs,
    recorded,
    sentence,
    sparse,
    whole,
    word,
)  # fmt: skip  # fmt: skip
from problems.estimators.shared.encoding import PruningStep, ReducedReweighting, Reweighting
from substrate.closed_form.leave_one_out import ROBUST
from substrate.closed_form.robust_weights import SCALES, WEIGHTINGS
from substrate.codings import CODINGS
from substrate.reduced import Basis
from substrate.reduced.basis import RULES
from substrate.solvers import ORDER

__all__ = ["FITTED", "OUTSIDE", "PARAMETERS"]


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
#: Where support values cannot represent the answer of a kernel of finite rank.
_PRIMAL: _Kinds = {"primal_weights_": _MATRIX, "primal_center_": _VECTOR, "primal_bias_": _VECTOR}
_RIDGE: _Kinds = {"ridge_": _EACH, "n_iter_": _WHOLE, **_PRIMAL}
#: The choice of validation, and values of the criterion; beyond 1e154 a square is infinite.
_PROOF: _Kinds = {
    "criterion_": either(_UNBOUNDED, array(unbounded=True)),
    "criterion_lower_bound_": either(_UNBOUNDED, array(unbounded=True)),
    "path_": entries({
        "parameter": word("gamma", "zeta", "rho"), "values": array(unbounded=True),
        "criterion": array(dimensions=(1, 2), unbounded=True), "coverage": many(_UNBOUNDED),
        "holes": many(many(_UNBOUNDED)), "stop": sentence(), "maximal_variation": array(dimensions=(2, 3)),
    }),
}  # fmt: skip
_CHOSEN: _Kinds = _PROOF | {
    "gamma_": either(_NUMBER, _VECTOR),
    "gamma_range_": _VECTOR,
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
_REDUCED: _Kinds = {
    "basis_indices_": either(nothing(), array("iu")), "n_rows_": _WHOLE, "rank_": _WHOLE,
    "reconstruction_error_": _NUMBER,
}  # fmt: skip
_LEVERAGE: _Kinds = {"leverage_factor_": _MATRIX, "leverage_offset_": _VECTOR, "degrees_of_freedom_": _NUMBER}
_FEW: _Kinds = {"n_support_": _WHOLE}
#: The training rows, where they are not those of the support.
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
    "FusedL1SubstrateClassifier": _EVERY | _CODES | _PROOF | _FEW | _TRAINED | {"zeta_": _NUMBER},
    "FusedL1SubstrateRegressor": _EVERY | _PROOF | _FEW | _TRAINED | {"zeta_": _NUMBER},
    "FusedLeastSquaresRegressor": _EVERY | {"criterion_": _UNBOUNDED},
    "FusedMaximalVariationClassifier": _EVERY | _CODES | _PROOF | {"maximal_variation_": _EACH, "rho_": _NUMBER},
    "FusedMaximalVariationRegressor": _EVERY | _PROOF | {"maximal_variation_": _EACH, "rho_": _NUMBER},
    "HuberLSSVMRegressor": _EVERY | {"delta_": _NUMBER, "outliers_": array("iu"), "ridge_": _VECTOR},
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
        "bias_path_": _VECTOR, "support_values_path_": sparse(), "zetas_": _VECTOR,
    },
    "SparseLSSVMClassifier": _EVERY | _CLASSES | _REDUCED | _LEVERAGE,
    "SparseLSSVMClassifierCV": _EVERY | _CLASSES | _REDUCED | _LEVERAGE | _CHOSEN,
    "SparseLSSVMRegressor": _EVERY | _REDUCED | _LEVERAGE,
    "SparseLSSVMRegressorCV": _EVERY | _REDUCED | _LEVERAGE | _CHOSEN,
    "SparseMaximalVariationRegressor": _EVERY | _REDUCED | {"maximal_variation_": _EACH, "n_bounded_": _WHOLE},
    "SubstrateRegressor": _EVERY | _PRIMAL | {"constants_": _VECTOR},
}  # fmt: skip


#: Parameters that act outside the model, and the values that are accepted in files of version 1: they have no effect,
#: and are not used.
OUTSIDE: _Kinds = {
    "checkpoint": nothing(),
    "executor": either(nothing(), word("serial")),
    "memory_budget": number(),
    "passes": nothing(),
    "n_jobs": Allowed("None or 1", lambda value: value is None or (type(value) is int and value == 1)),
    "verbose": either(flag(), whole()),
}


_NUMBER, _WHOLE, _FLAG = number(), whole(), flag()
_GAMMAS = either(_NUMBER, many(_NUMBER, 1), array("fiu"))
_ROWS = either(array("iu"), many(_WHOLE, 1))
_FOLDS = either(nothing(), _WHOLE, many(either(_ROWS, many(_ROWS, 2)), 1), array("iu", (2,)))
_SPLITS = Allowed("None, a number of folds, or a list of folds or splits by row numbers", _FOLDS.allows)
_SEED = either(nothing(), _WHOLE)
_SHARE = either(_WHOLE, _NUMBER)
_MOST = either(nothing(), _WHOLE)
_RANGE = either(nothing(), many(_NUMBER, 2), array("fiu"))
_SOLVERS = either(word("auto", "cg", "cvxpy"), word(*ORDER, any_case=True))
_LABEL = Allowed("a label", lambda value: isinstance(value, (str, bool)) or _NUMBER.allows(value))
_POINTS = either(array("fiu", (1, 2)), sparse(), many(either(_WHOLE, many(_NUMBER, 1)), 1))

#: The parameters of every estimator.
_KERNEL: _Kinds = {"kernel": kernel(named=True), "tol": _NUMBER}
_CODING: _Kinds = {"coding": word(*CODINGS)}
_ITERATED: _Kinds = {"solver": _SOLVERS, "cg_tol": _NUMBER, "max_iter": _WHOLE}
_PLAIN: _Kinds = _KERNEL | {"gamma": _GAMMAS} | _ITERATED
_WEIGHTED_CLASSES: _Kinds = {
    "class_weight": either(nothing(), word("balanced"), pairs(_LABEL, _NUMBER)),
} | _CODING  # fmt: skip
_CANDIDATES: _Kinds = {"kernels": either(nothing(), many(kernel(named=True), 1)), "gap": _NUMBER}
_SEARCH: _Kinds = _KERNEL | _CANDIDATES | {"cv": either(word("loo", "gcv"), _SPLITS), "gamma_range": _RANGE}
_SIMPLEX: _Kinds = {"search": either(nothing(), word("nelder-mead")), "max_evaluations": _WHOLE}
_LOSSES = ("squared", *ROBUST)
_HELD_OUT: _Kinds = _KERNEL | {"random_state": _SEED, "validation_fraction": _NUMBER}
_FUSED: _Kinds = _HELD_OUT | _CANDIDATES | {"cv": either(word("loo"), _SPLITS)}
_STRUCTURE: _Kinds = _KERNEL | {"ridge": _NUMBER, "cutoff": _NUMBER, "relevance": _NUMBER}
_EXPANSION: _Kinds = {"expansion": word("shared", "decoupled")}
_VARIATION_FITS: _Kinds = (
    _STRUCTURE | _EXPANSION | {"rho": _NUMBER, "refit": _FLAG, "gamma": _NUMBER, "solver": _SOLVERS}
)  # fmt: skip
_RULE = either(nothing(), word(*RULES), _POINTS)
_CHOICE = recorded(Basis, {
    "n": _MOST, "rule": _RULE, "n_candidates": _MOST, "n_scoring": _MOST, "reconstruction_tolerance": _NUMBER,
    "random_state": _SEED,
})  # fmt: skip
_BASIS: _Kinds = _KERNEL | {"basis": either(_CHOICE, _WHOLE, _RULE)}
_SPARSE: _Kinds = _BASIS | {"gamma": _NUMBER, "solver": word("auto", "direct", "cg")}
_SPARSE_SEARCH: _Kinds = _BASIS | _SEARCH
_ROBUST: _Kinds = {
    "weighting": word(*WEIGHTINGS), "scale": word(*SCALES), "max_reweightings": _WHOLE, "weights_tol": _NUMBER,
}  # fmt: skip
_COLUMNS: _Kinds = _KERNEL | _CODING | {"gamma": _NUMBER}
_PRUNED: _Kinds = _KERNEL | {
    "gamma": _GAMMAS, "step": _SHARE, "n_support": _MOST, "cv": either(word("loo", "training"), _SPLITS),
    "growth": _NUMBER, "retune": _FLAG,
}  # fmt: skip

PARAMETERS: Mapping[str, _Kinds] = {
    "ALSSVMClassifier": _COLUMNS
    | {"threshold": _NUMBER, "max_epochs": _WHOLE, "n_support": _SHARE, "random_state": _SEED},
    "AdaPinvClassifier": _COLUMNS
    | {"n_support": _SHARE, "accelerated": _FLAG, "adaline_tol": _NUMBER, "max_epochs": _WHOLE},
    "ComponentwiseLSSVMClassifier": _PLAIN | _WEIGHTED_CLASSES | {"relevance": _NUMBER},
    "ComponentwiseLSSVMRegressor": _PLAIN | {"relevance": _NUMBER},
    "FusedL1SubstrateClassifier": _FUSED | _CODING | {"zeta_min": either(nothing(), _NUMBER)},
    "FusedL1SubstrateRegressor": _FUSED | {"zeta_min": either(nothing(), _NUMBER)},
    "FusedLeastSquaresRegressor": _HELD_OUT | {"cutoff": _NUMBER},
    "FusedMaximalVariationClassifier": _FUSED | _STRUCTURE | _EXPANSION | _CODING,
    "FusedMaximalVariationRegressor": _FUSED | _STRUCTURE | _EXPANSION,
    "HuberLSSVMRegressor": _KERNEL | {"gamma": _NUMBER, "delta": either(_NUMBER, word("auto"))},
    "IPLSSVMClassifier": _COLUMNS | {"n_support": _SHARE},
    "L1SubstrateClassifier": _KERNEL | _CODING | {"zeta": _NUMBER, "solver": _SOLVERS},
    "L1SubstrateRegressor": _KERNEL | {"zeta": _NUMBER, "solver": _SOLVERS},
    "LS2SVMClassifier": _COLUMNS | {"threshold": _NUMBER},
    "LSSVMClassifier": _PLAIN | _WEIGHTED_CLASSES,
    "LSSVMClassifierCV": _SEARCH | _HELD_OUT | _SIMPLEX | _CODING | {"loss": word(*_LOSSES, "misclassification")},
    "LSSVMRegressor": _PLAIN,
    "LSSVMRegressorCV": _SEARCH | _HELD_OUT | _SIMPLEX | {"loss": word(*_LOSSES)},
    "MaximalVariationClassifier": _VARIATION_FITS | _CODING,
    "MaximalVariationRegressor": _VARIATION_FITS,
    "PrunedLSSVMClassifier": _PRUNED | _CODING,
    "PrunedLSSVMRegressor": _PRUNED
    | {"weighting": either(nothing(), word(*WEIGHTINGS)), "scale": word(*SCALES), "reweight": _FLAG},
    "RobustLSSVMRegressor": _KERNEL | {"gamma": _GAMMAS} | _ROBUST,
    "RobustSparseLSSVMRegressor": _BASIS | {"gamma": _NUMBER} | _ROBUST,
    "SparseComponentwiseLSSVMRegressor": _BASIS | {"gamma": _NUMBER, "relevance": _NUMBER},
    "SparseL1SubstrateClassifier": _BASIS | _CODING | {"zeta": _NUMBER},
    "SparseL1SubstrateRegressor": _BASIS | {"zeta": _NUMBER},
    "SparseLSSVMClassifier": _SPARSE | _CODING,
    "SparseLSSVMClassifierCV": _SPARSE_SEARCH | _CODING,
    "SparseLSSVMRegressor": _SPARSE,
    "SparseLSSVMRegressorCV": _SPARSE_SEARCH,
    "SparseMaximalVariationRegressor": _BASIS | _STRUCTURE | {"rho": _NUMBER},
    "SubstrateRegressor": _KERNEL | {"c": _NUMBER},
}
