"""What a model file may hold: the parameters and the fitted attributes of an estimator, each with its kind of value.

A field annotated with plain types or with a ``Literal`` of words states its kind by the annotation, and so does an
attribute of a fit that its class annotates. All others are listed here, once, for the class that introduces them: an
estimator has those of its bases and of the kinds of its parts. These are lists of what is allowed, not of what is
forbidden: a name that has no kind is neither written nor read. Numbers are finite except for bounds and scores, which
may be unknown, and those that are parameters are not negative, except for constants; integers have at most 64 bits;
words are those that the estimator knows. Parameters that act outside the model (memory, output) are in
:data:`OUTSIDE` and never in a file.
"""

import types
from collections.abc import Mapping
from functools import cache
from inspect import get_annotations
from typing import Any, Literal, Union, get_args, get_origin

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
    record_of,
    sentence,
    sparse,
    whole,
    word,
)
from problems.estimators.shared.calibration_scores import CalibrationScores
from problems.estimators.shared.encoding import PruningStep, Reweighting, Robust
from problems.estimators.shared.model import part_types
from substrate.codings import CODINGS
from substrate.least_squares.error_distribution import ALL_WEIGHTINGS
from substrate.least_squares.leave_one_out import ROBUST
from substrate.least_squares.robust_weights import SCALES
from substrate.losses import Loss
from substrate.reduced import RULES, Basis
from substrate.solvers import FURTHER, ORDER
from substrate.uncertainty.spread import Spread

__all__ = ["FITTED", "OUTSIDE", "PARAMETERS", "attributes_of", "kinds_of", "parameters_of"]

_Kinds = dict[str, Allowed]
#: Where the bases are that estimators share.
_SHARED = "problems.estimators.shared."

_NUMBER, _WHOLE, _FLAG = number(), whole(), flag()
_UNBOUNDED = number(unbounded=True)
#: Every number that is a parameter: weights, tolerances, shares, scales.
_AMOUNT = number(0.0)
_LABEL = Allowed("a label", lambda value: isinstance(value, (str, bool)) or _NUMBER.allows(value))
_BOX = pairs(_LABEL, many(_UNBOUNDED, 2))
_VECTOR, _MATRIX, _EACH = array(), array(dimensions=(2,)), array(dimensions=(1, 2))
_EVERY: _Kinds = {
    "bias_": either(_NUMBER, array(dimensions=(0, 1))),
    "certificate_": certificate(),
    "feature_names_in_": labels("UO"),
    "kernel_": kernel(),
    "n_features_in_": whole(1),
    "support_": array("iu"),
    "support_values_": array(dimensions=(1, 2, 3)),
    "support_vectors_": either(_MATRIX, sparse()),
}
#: The machines of a stack.
_STACK: _Kinds = {
    "biases_": _EACH,
    "gammas_": _EACH,
    "kernels_": many(kernel(), 1),
    "row_weights_": _VECTOR,
    "stack_weights_": _EACH,
}
_LINEAR: _Kinds = {
    "coef_": _EACH,
    "linear_bias_": either(_NUMBER, _VECTOR),
    "linear_center_": _VECTOR,
    "linear_columns_": array("iu"),
}
#: The spread of left-out errors, one record per output.
_SPREADS = many(
    record_of(
        Spread,
        {
            "levels": _VECTOR,
            "coefficients": _VECTOR,
            "bias": _NUMBER,
            "floor": _NUMBER,
            "unit": _NUMBER,
            "center": _NUMBER,
            "deviation": _NUMBER,
            "sizes": array(unbounded=True),
        },
    ),
    1,
)
#: Machines without a fold each, the folds, and the errors of rows in the machine without theirs.
_NESTED: _Kinds = {
    "nested_folds_": array("iu"),
    "nested_machines_": many(
        entries(
            {name: _EVERY[name] for name in ("kernel_", "support_values_", "bias_")}
            | _LINEAR
            | _STACK
            | {"spreads": _SPREADS}
        ),
        2,
    ),
    "nested_scores_": _EACH,
}
#: The choice of validation, and values of the criterion; beyond 1e154 a square is infinite.
_PROOF: _Kinds = {
    "criterion_": either(_UNBOUNDED, array(unbounded=True)),
    "criterion_lower_bound_": either(_UNBOUNDED, array(unbounded=True)),
    "path_": entries(
        {
            "parameter": word("gamma", "zeta", "rho"),
            "parameters": many(_LABEL, 2),
            "values": array(dimensions=(1, 2), unbounded=True),
            "criterion": array(dimensions=(1, 2), unbounded=True),
            "coverage": either(many(_UNBOUNDED), many(many(_UNBOUNDED, 2), 2)),
            "stop": sentence(),
            "maximal_variation": array(dimensions=(2, 3)),
        }
    ),
}
_SELECTION = entries(
    {
        "start": array(unbounded=True),
        "stop": array(unbounded=True),
        "support": array("b", (2, 3)),
        "criterion": array(unbounded=True),
        "lower_bound": array(unbounded=True),
        "gamma": array(unbounded=True),
    }
)
_CHOSEN: _Kinds = {
    "gamma_": either(_NUMBER, _VECTOR),
    "gamma_range_": _VECTOR,
    "reach_": _WHOLE,
    "cv_results_": entries(
        {
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
            "gamma_range": many(many(_NUMBER, 2)),
            "n_intervals": array("iu", (1, 2)),
        }
    ),
}
_LOSS = Allowed("a loss of substrate.losses", lambda value: isinstance(value, Loss))
_FEW: _Kinds = {"n_support_": _WHOLE}
_STEP: _Kinds = {
    "rows": array("iu"),
    "support_values": _EACH,
    "score": _UNBOUNDED,
    "gamma": either(_NUMBER, _VECTOR),
    "kernel": kernel(),
    "retuned": _FLAG,
}
_REWEIGHTED: _Kinds = {
    "bias": _NUMBER,
    "support_values": _VECTOR,
    "scale": _UNBOUNDED,
    "change": _UNBOUNDED,
}
_EPOCHS: _Kinds = {"n_epochs_": _WHOLE, "residual_": _UNBOUNDED}
_ERRORS: _Kinds = {"coef_standard_errors_": array(dimensions=(1, 2), unbounded=True)}

_ON_A_BASIS: _Kinds = {
    "basis_indices_": either(nothing(), array("iu")),
    "degrees_of_freedom_": _NUMBER,
    "leverage_factor_": _MATRIX,
    "leverage_offset_": _VECTOR,
    "n_rows_": _WHOLE,
    "rank_": _WHOLE,
    "reconstruction_error_": _NUMBER,
}

#: The attributes that a fit sets, by the class that introduces them; None for one that its bases set and it does not.
FITTED: Mapping[str, Mapping[str, Allowed | None]] = {
    "KernelEstimator": _EVERY,
    "Classifier": {
        "classes_": labels(),
        "code_book_": _MATRIX,
        "support_codes_": _EACH,
        "calibration_scores_": record_of(
            CalibrationScores,
            {
                "scores": _EACH,
                "classes": array("iu"),
                "weights": _VECTOR,
                "source": word("left out", "folds", "split"),
            },
        ),
    },
    "LSSVMModel": _LINEAR | _ON_A_BASIS | {"ridge_": _EACH, "n_iter_": _WHOLE, "row_variation_": _EACH},
    "LSSVMRegressor": {
        "shape_box_": _MATRIX,
        "shape_coefficients_": _VECTOR,
        "shape_multipliers_": _VECTOR,
        "shape_orders_": array("iu", (2,)),
        "shape_points_": _MATRIX,
        "coef_standard_errors_": array(dimensions=(1, 2), unbounded=True),
        "history_": many(record_of(Reweighting, _REWEIGHTED | {"weights": _VECTOR}), 1),
        "scale_": _NUMBER,
        "thresholds_": _VECTOR,
        "weights_": _VECTOR,
        "constants_": _VECTOR,
        "mass_": _NUMBER,
        "weighted_": _FLAG,
    },
    "Intervals": {"calibration_scores_": _EACH},
    "LeftOutIntervals": {
        "noise_variance_": either(_UNBOUNDED, array(unbounded=True)),
        "unit_ridge_": either(_NUMBER, _VECTOR),
    },
    "DenseIntervals": _NESTED,
    "StackIntervals": _NESTED,
    "AdditiveEstimator": {"maximal_variation_": _EACH},
    "LinearColumnsModel": _LINEAR,
    "Search": _PROOF,
    "OverGamma": _CHOSEN,
    "StackedModel": _STACK
    | {
        "criterion_": either(_UNBOUNDED, array(unbounded=True)),
        "support_codes_": None,  # its classifiers are regressions on the codes
    },
    "OverZeta": {  # rows that train, where the support does not tell
        "gamma_": _NUMBER,
        "selection_path_": _SELECTION,
        "proved_on_": _BOX,
        "ridge_": _NUMBER,
        "training_rows_": array("iu"),
        "zeta_": _NUMBER,
    },
    "OverRho": {
        "component_support_": array("b"),
        "gamma_": _NUMBER,
        "proved_on_": _BOX,
        "rho_": either(_NUMBER, pairs(_LABEL, _NUMBER)),
        "selection_kernel_": kernel(),
        "selection_path_": _SELECTION,
        "training_rows_": array("iu"),
    },
    "L1Model": _FEW,
    "WithBasis": {
        "basis_indices_": either(nothing(), array("iu")),
        "candidates_": either(_MATRIX, sparse()),
        "n_rows_": _WHOLE,
        "zeta_max_": _NUMBER,
    },
    "L1SubstrateRegressor": {"bias_path_": _VECTOR, "support_values_path_": sparse(), "zetas_": _VECTOR},
    "MaximalVariationModel": {"component_support_": array("b")},
    "PrunedModel": {
        "gamma_": either(_NUMBER, _VECTOR),
        "ridge_": _VECTOR,
        "weights_": _VECTOR,
        "step_": _WHOLE,
        "pruning_path_": many(record_of(PruningStep, _STEP), 1),
    },
    "ColumnReducedClassifier": _FEW,
    "RowLossModel": _FEW | {"loss_": _LOSS},
    "ALSSVMClassifier": _EPOCHS,
    "AdaPinvClassifier": _EPOCHS,
    "LS2SVMClassifier": {"threshold_": _NUMBER},
    "KernelComponents": {"eigenvalues_": _VECTOR, "explained_variance_ratio_": _VECTOR},
    "KernelFisherDiscriminant": {"class_means_": _MATRIX, "classes_": labels(), "within_": _VECTOR},
    "TwoViews": {
        "candidate_criteria_": _VECTOR,
        "candidate_nus_": _VECTOR,
        "correlations_": _VECTOR,
        "criterion_": _NUMBER,
        "nus_": _VECTOR,
        "singular_values_": _VECTOR,
        "y_bias_": _VECTOR,
        "y_kernel_": kernel(),
        "y_support_values_": _MATRIX,
        "y_vectors_": _MATRIX,
    },
    "KernelSpectralClustering": {
        "candidate_clusters_": array("iu"),
        "candidate_criteria_": _VECTOR,
        "candidate_kernels_": many(kernel()),
        "code_book_": _MATRIX,
        "criterion_": _NUMBER,
        "labels_": array("iu"),
        "n_clusters_": _WHOLE,
    },
    "LSSVMKernelPCA": {
        "basis_rank_": _WHOLE,
        "mean_coefficients_": _VECTOR,
        "n_rows_": _WHOLE,
        "preimage_bias_": _VECTOR,
        "preimage_error_": _NUMBER,
        "preimage_kernel_": kernel(),
        "preimage_scores_": _MATRIX,
        "preimage_values_": _MATRIX,
    },
}


#: Parameters that act outside the model, and are in no file.
OUTSIDE = frozenset(("n_jobs", "verbose"))


_ROWS = either(array("iu"), many(_WHOLE, 1))
_FOLDS = either(nothing(), _WHOLE, many(either(_ROWS, many(_ROWS, 2)), 1), array("iu", (2,)))
_SPLITS = Allowed("None, a number of folds, or a list of folds or splits by row numbers", _FOLDS.allows)
_MOST = either(nothing(), _WHOLE)
_AMOUNTS = either(_AMOUNT, many(_AMOUNT, 1), array("fiu"))
_SOLVER: _Kinds = {"solver": either(word("auto", "cg", "cvxpy"), word(*ORDER, *FURTHER, any_case=True))}
_COLUMN = either(_WHOLE, Allowed("a name", lambda value: isinstance(value, str)))
_COLUMNS = either(many(_COLUMN, 1), array("iu"))
_GROUPS = either(nothing(), many(_COLUMNS, 1), pairs(_LABEL, _COLUMNS), array("iu", (2,)))
_RANGE = either(many(_AMOUNT, 2), array("fiu"))
_POINTS = either(array("fiu", (1, 2)), sparse(), many(either(_WHOLE, many(_NUMBER, 1)), 1))
_KERNELS: _Kinds = {"kernels": either(nothing(), many(kernel(named=True), 1)), "random_state": _MOST}
_LOSSES = ("squared", *ROBUST)
_WRONG: _Kinds = {"loss": word(*_LOSSES, "misclassification")}
_RULE = either(nothing(), word(*RULES), _POINTS)
_CHOICE = record_of(
    Basis,
    {
        "n": _MOST,
        "rule": _RULE,
        "n_candidates": _MOST,
        "n_scoring": _MOST,
        "reconstruction_tolerance": _AMOUNT,
        "random_state": _MOST,
    },
)
_CLASSES: _Kinds = {"class_weight": either(nothing(), word("balanced"), pairs(_LABEL, _AMOUNT))}

_REFIT: _Kinds = {"refit": either(_FLAG, word("loo"))}
_SIGN = Allowed("1 or -1", lambda value: type(value) is int and value in (1, -1))
_END = either(nothing(), _NUMBER)
_SHAPES: _Kinds = {
    "bounds": either(nothing(), many(_END, 2)),
    "convex": either(nothing(), word("jointly"), _COLUMNS, pairs(_COLUMN, _SIGN)),
    "monotone": either(nothing(), pairs(_COLUMN, _SIGN)),
}

_ROBUST = either(
    nothing(),
    word(*ALL_WEIGHTINGS),
    record_of(Robust, {"weighting": word(*ALL_WEIGHTINGS), "scale": word(*SCALES), "max_reweightings": _WHOLE}),
)

#: The parameters whose annotation does not say what they may be, by the class that introduces them.
PARAMETERS: Mapping[str, _Kinds] = {
    "KernelEstimator": {"kernel": kernel(named=True)},
    "Classifier": {"coding": word(*CODINGS)},
    "LSSVMModel": {
        "basis": either(nothing(), _CHOICE, _WHOLE, _RULE),
        "gamma": _AMOUNTS,
        "solver": either(word("auto", "cholesky", "cg", "cvxpy"), word(*ORDER, *FURTHER, any_case=True)),
    },
    "LSSVMRegressor": _SHAPES | {"c": either(nothing(), _NUMBER, _VECTOR), "robust": _ROBUST},
    "LinearColumnsModel": {"linear_columns": either(many(_COLUMN), array("iu"))},
    "LSSVMClassifier": _CLASSES,
    "KernelClassifier": _CLASSES,
    "RowLossModel": {"loss": either(nothing(), _LOSS)},
    "Search": _KERNELS | {"cv": either(word("loo"), _SPLITS)},
    "OverGamma": {
        "kernels": either(word("families"), _KERNELS["kernels"]),
        "cv": either(word("loo", "gcv", "evidence"), _SPLITS),
        "loss": word(*_LOSSES),
        "gamma_range": either(nothing(), many(_AMOUNT, 2), array("fiu")),
        "search": either(nothing(), word("gradient")),
        "widths": either(nothing(), word("auto", "shared", "each")),
    },
    "DenseSearch": {"cv": either(word("loo", "blocks", "groups", "gcv", "evidence"), _SPLITS)},
    "LSSVMRegressorCV": {"cv": either(word("loo", "blocks", "groups", "gcv", "evidence", "noise"), _SPLITS)},
    "StackedLSSVMClassifier": _CLASSES,
    "StackChoice": {
        "kernels": either(word("families"), _KERNELS["kernels"]),
        "cv": either(word("loo", "gcv", "evidence"), _SPLITS),
    },
    "LSSVMClassifierCV": _WRONG,
    "OverRho": _REFIT | {"groups": _GROUPS, "rho_range": either(nothing(), _RANGE, pairs(_LABEL, _RANGE))},
    "OverZeta": _REFIT | {"ridge_range": either(nothing(), _RANGE)},
    "L1SubstrateClassifier": _SOLVER,
    "L1SubstrateRegressor": _SOLVER,
    "VariationModel": {"expansion": word("shared", "decoupled")},
    "MaximalVariationModel": _SOLVER
    | {
        "groups": _GROUPS,
        "rho": either(_AMOUNT, many(_AMOUNT, 1), array("fiu"), pairs(_LABEL, _AMOUNT)),
    },
    "PrunedModel": {
        "step": either(_WHOLE, _AMOUNT),
        "n_support": _MOST,
        "cv": either(nothing(), word("loo", "training"), _WHOLE),
    },
    "PrunedLSSVMRegressor": {"gamma": _AMOUNTS, "robust": _ROBUST},
    "ALSSVMClassifier": {"random_state": _MOST},
    "WithBasis": {"basis": either(nothing(), _CHOICE, _WHOLE, _RULE)},
    "TwoViews": {"kernel_y": kernel(named=True), "random_state": _MOST},
    "KernelFisherDiscriminant": {"n_components": _MOST},
    "KernelCCA": {"method": word("cca", "pls")},
    "KernelSpectralClustering": {
        "kernels": either(nothing(), many(kernel(named=True), 1)),
        "n_clusters": either(_WHOLE, many(_WHOLE, 1), array("iu")),
        "random_state": _MOST,
    },
    "LSSVMKernelPCA": {"basis": either(nothing(), _CHOICE, _WHOLE, _RULE)},
}

_PLAIN: Mapping[Any, Allowed] = {float: _NUMBER, int: _WHOLE, bool: _FLAG, types.NoneType: nothing()}
_PLAIN_PARAMETERS: Mapping[Any, Allowed] = {**_PLAIN, float: _AMOUNT}


def parameters_of(estimator: type) -> _Kinds:
    """Return the parameters that a file may hold of an estimator; one that has no kind is left out, and refused."""
    kinds = _collect_inherited(estimator, PARAMETERS)
    parameters = estimator().get_params(deep=False)
    return {name: kind for name in parameters if name not in OUTSIDE and (kind := kinds.get(name)) is not None}


def attributes_of(estimator: type) -> _Kinds:
    """Return the fitted attributes that a file may hold of an estimator."""
    kinds = _collect_inherited(estimator, FITTED).items()
    return {name: kind for name, kind in kinds if name.endswith("_") and kind is not None}


def _collect_inherited(
    estimator: type, listed: Mapping[str, Mapping[str, Allowed | None]]
) -> dict[str, Allowed | None]:
    """Return what the estimator, the kinds of its parts and its bases list or annotate, the nearest first."""
    kinds: dict[str, Allowed | None] = {}
    for kind in kinds_of(estimator):
        kinds |= _annotations_of(kind)
        kinds |= listed.get(kind.__name__, {})
    return kinds


@cache
def kinds_of(estimator: type) -> tuple[type, ...]:
    """Return the classes that an estimator is made of: bases that estimators share, its parts, then its own class."""
    own_bases = [base for base in reversed(estimator.__mro__) if not base.__module__.startswith(_SHARED)]
    shared = [base for base in reversed(estimator.__mro__) if base.__module__.startswith(_SHARED)]
    return (
        *shared,
        *(kind for part_type in part_types(estimator()) for kind in reversed(part_type.__mro__)),
        *own_bases,
    )


@cache
def _annotations_of(base: type) -> _Kinds:
    """Return the kinds that the annotations of one class state; found anew, they take a quarter of a small load."""
    annotated = {
        name: _kind_of_annotation(kind, _PLAIN if name.endswith("_") else _PLAIN_PARAMETERS)
        for name, kind in get_annotations(base).items()
    }
    return {name: kind for name, kind in annotated.items() if kind is not None}


def _kind_of_annotation(annotation: Any, plain: Mapping[Any, Allowed]) -> Allowed | None:
    """Return the kind of value that an annotation states, if it does: plain types, words, and unions of those."""
    if get_origin(annotation) is Literal:
        return word(*get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [_kind_of_annotation(argument, plain) for argument in get_args(annotation)]
        known_kinds = [kind for kind in kinds if kind is not None]
        return either(*known_kinds) if len(known_kinds) == len(kinds) else None
    return plain.get(annotation)
