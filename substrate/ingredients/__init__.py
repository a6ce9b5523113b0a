"""Ingredients: one constraint or term per module, with its multiplier, its residual and its certificate rows.

Builders take cvxpy expressions; residuals and rows take plain numbers, so a closed form is certified by the same code
and never imports cvxpy.
"""

from substrate.ingredients.complementary_slackness import ComplementarySlackness, complementary_slackness
from substrate.ingredients.component_bounds import ComponentBounds, component_bounds, slackness_products, variation_rows
from substrate.ingredients.fit_equalities import (
    ClassificationFit,
    RegressionFit,
    classification_fit,
    fit_row,
    margin_row,
    regression_fit,
    signed_labels,
)
from substrate.ingredients.huber_errors import (
    HuberConjugate,
    HuberErrors,
    huber_conjugate,
    huber_errors,
    huber_loss,
    huber_rows,
)
from substrate.ingredients.sparsity import Sparsity, sparsity, sparsity_rows
from substrate.ingredients.squared_terms import (
    SquaredErrors,
    SquaredNorm,
    error_row,
    norm_row,
    squared_errors,
    squared_norm,
)
from substrate.ingredients.zero_sum import ZeroSum, zero_sum, zero_sum_row

__all__ = [
    "ClassificationFit",
    "ComplementarySlackness",
    "ComponentBounds",
    "HuberConjugate",
    "HuberErrors",
    "RegressionFit",
    "Sparsity",
    "SquaredErrors",
    "SquaredNorm",
    "ZeroSum",
    "classification_fit",
    "complementary_slackness",
    "component_bounds",
    "error_row",
    "fit_row",
    "huber_conjugate",
    "huber_errors",
    "huber_loss",
    "huber_rows",
    "margin_row",
    "norm_row",
    "regression_fit",
    "signed_labels",
    "slackness_products",
    "sparsity",
    "sparsity_rows",
    "squared_errors",
    "squared_norm",
    "variation_rows",
    "zero_sum",
    "zero_sum_row",
]
