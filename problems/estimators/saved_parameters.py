"""The parameters that a model file may hold: those of every estimator, each with its kind of value.

This is a list of what may be there, not of what may not: a parameter that it does not name is neither written nor read,
and an estimator that it does not name cannot be saved. Words are those that the estimator knows. What acts outside the
model (who computes, where files lie, how much memory is taken, what is printed) is in :data:`OUTSIDE` and never in a
file.
"""

from collections.abc import Mapping

from problems.estimators.allowed import (
    Allowed,
    array,
    either,
    flag,
    kernel,
    many,
    nothing,
    number,
    pairs,
    sparse,
    whole,
    word,
)  # fmt: skip
from problems.estimators.basis_choice import RULES
from problems.estimators.candidates import ROBUST, SMOOTH
from problems.estimators.performance_index import INDICES
from substrate.closed_form.robust_weights import SCALES, WEIGHTINGS
from substrate.codings import CODINGS
from substrate.solvers import ORDER

__all__ = ["OUTSIDE", "PARAMETERS"]

_Kinds = dict[str, Allowed]

#: Parameters that act outside the model, and the values with which files of version 1 are read all the same: none of
#: these reaches anything, and none is taken over.
OUTSIDE: _Kinds = {
    "checkpoint": nothing(),
    "executor": either(nothing(), word("serial")),
    "memory_budget": number(),
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

#: What every estimator has.
_KERNEL: _Kinds = {"kernel": kernel(named=True), "tol": _NUMBER}
_CODING: _Kinds = {"coding": word(*CODINGS)}
_ITERATED: _Kinds = {"solver": _SOLVERS, "cg_tol": _NUMBER, "max_iter": _WHOLE}
_PLAIN: _Kinds = _KERNEL | {"gamma": _GAMMAS} | _ITERATED
_WEIGHTED_CLASSES: _Kinds = {
    "class_weight": either(nothing(), word("balanced"), pairs(_LABEL, _NUMBER)),
} | _CODING  # fmt: skip
_CANDIDATES: _Kinds = {"kernels": either(nothing(), many(kernel(named=True), 1)), "gap": _NUMBER}
_SEARCH: _Kinds = _KERNEL | _CANDIDATES | {"cv": _SPLITS, "gamma_range": _RANGE}
_SIMPLEX: _Kinds = {"search": either(nothing(), word("nelder-mead")), "max_evaluations": _WHOLE}
_CRITERIA = (*SMOOTH, *ROBUST)
_HELD_OUT: _Kinds = _KERNEL | {"random_state": _SEED, "validation_fraction": _NUMBER}
_FUSED: _Kinds = _HELD_OUT | _CANDIDATES | {"cv": _SPLITS}
_FUSED_GAMMA: _Kinds = _FUSED | {"cv": either(_SPLITS, word("loo")), "gamma_range": _RANGE}
_STRUCTURE: _Kinds = _KERNEL | {"ridge": _NUMBER, "cutoff": _NUMBER, "tolerance": _NUMBER}
_EXPANSION: _Kinds = {"expansion": word("shared", "decoupled")}
_VARIATION: _Kinds = (
    _STRUCTURE | _EXPANSION | {"rho": _NUMBER, "refit": _FLAG, "gamma": _NUMBER, "solver": _SOLVERS}
)  # fmt: skip
_BASIS: _Kinds = _KERNEL | {
    "basis": either(word(*RULES), _POINTS), "n_basis": _MOST, "n_candidates": _MOST, "n_scoring": _MOST,
    "random_state": _SEED, "tolerance": _NUMBER,
}  # fmt: skip
_SPARSE: _Kinds = _BASIS | {"gamma": _NUMBER, "solver": word("auto", "direct", "cg")}
_SPARSE_SEARCH: _Kinds = _BASIS | _SEARCH | {"criterion": word(*SMOOTH)}
_ROBUST: _Kinds = {
    "weighting": word(*WEIGHTINGS), "scale": word(*SCALES), "max_reweightings": _WHOLE, "weights_tol": _NUMBER,
}  # fmt: skip
_COLUMNS: _Kinds = _KERNEL | _CODING | {"gamma": _NUMBER}
_PRUNED: _Kinds = _KERNEL | {
    "gamma": _GAMMAS, "step": _SHARE, "n_support": _MOST, "index": word(*INDICES), "folds": _WHOLE,
    "tolerance": _NUMBER, "retune": _FLAG,
}  # fmt: skip

PARAMETERS: Mapping[str, _Kinds] = {
    "ALSSVMClassifier": _COLUMNS
    | {"threshold": _NUMBER, "max_epochs": _WHOLE, "n_support": _SHARE, "random_state": _SEED},
    "AdaPinvClassifier": _COLUMNS
    | {"n_support": _SHARE, "accelerated": _FLAG, "adaline_tol": _NUMBER, "max_epochs": _WHOLE},
    "ComponentwiseLSSVMClassifier": _PLAIN | _WEIGHTED_CLASSES | {"tolerance": _NUMBER},
    "ComponentwiseLSSVMRegressor": _PLAIN | {"tolerance": _NUMBER},
    "FusedL1SubstrateClassifier": _FUSED | _CODING | {"zeta_min": either(nothing(), _NUMBER)},
    "FusedL1SubstrateRegressor": _FUSED | {"zeta_min": either(nothing(), _NUMBER)},
    "FusedLSSVMClassifier": _FUSED_GAMMA | _CODING,
    "FusedLSSVMRegressor": _FUSED_GAMMA,
    "FusedLeastSquaresRegressor": _HELD_OUT | {"cutoff": _NUMBER},
    "FusedMaximalVariationClassifier": _FUSED | _STRUCTURE | _EXPANSION | _CODING,
    "FusedMaximalVariationRegressor": _FUSED | _STRUCTURE | _EXPANSION,
    "HuberLSSVMRegressor": _KERNEL | {"gamma": _NUMBER, "delta": either(_NUMBER, word("auto"))},
    "IPLSSVMClassifier": _COLUMNS | {"n_support": _SHARE},
    "L1SubstrateClassifier": _KERNEL | _CODING | {"zeta": _NUMBER, "solver": _SOLVERS},
    "L1SubstrateRegressor": _KERNEL | {"zeta": _NUMBER, "solver": _SOLVERS},
    "LS2SVMClassifier": _COLUMNS | {"tolerance": _NUMBER},
    "LSSVMClassifier": _PLAIN | _WEIGHTED_CLASSES,
    "LSSVMClassifierCV": _SEARCH | _SIMPLEX | _CODING | {"criterion": word(*_CRITERIA, "misclassification")},
    "LSSVMRegressor": _PLAIN,
    "LSSVMRegressorCV": _SEARCH | _SIMPLEX | {"criterion": word(*_CRITERIA)},
    "MaximalVariationClassifier": _VARIATION | _CODING,
    "MaximalVariationRegressor": _VARIATION,
    "PrunedLSSVMClassifier": _PRUNED | _CODING,
    "PrunedLSSVMRegressor": _PRUNED
    | {"weighting": either(nothing(), word(*WEIGHTINGS)), "scale": word(*SCALES), "reweight": _FLAG},
    "RobustLSSVMRegressor": _KERNEL | {"gamma": _GAMMAS} | _ROBUST,
    "RobustSparseLSSVMRegressor": _BASIS | {"gamma": _NUMBER} | _ROBUST,
    "SparseComponentwiseLSSVMRegressor": _BASIS | {"gamma": _NUMBER},
    "SparseL1SubstrateClassifier": _BASIS | _CODING | {"zeta": _NUMBER},
    "SparseL1SubstrateRegressor": _BASIS | {"zeta": _NUMBER},
    "SparseLSSVMClassifier": _SPARSE | _CODING,
    "SparseLSSVMClassifierCV": _SPARSE_SEARCH | _CODING,
    "SparseLSSVMRegressor": _SPARSE,
    "SparseLSSVMRegressorCV": _SPARSE_SEARCH,
    "SparseMaximalVariationRegressor": _BASIS | _STRUCTURE | {"rho": _NUMBER},
    "SubstrateRegressor": _KERNEL | {"c": _NUMBER},
}
