"""Checks that scikit-learn does not make: arrays on a device, scales far apart, and the state of a model from a
file."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from substrate.arrays import is_device_array, is_sparse, to_numpy, where_it_lives
from substrate.errors import DataError, DeclarationError, ScaleWarning, user_level
from substrate.kernels import Kernel
from substrate.kernels.of_distance import spreads_of
from substrate.operators.gram import Gram
from substrate.operators.sources import streams

__all__ = [
    "check_home",
    "check_state",
    "column_number",
    "definite_gram",
    "explain_missing",
    "list_some",
    "names_columns",
    "refuse_streams",
    "warn_if_unscaled",
]


def refuse_streams(estimator: Any, X: Any, y: Any = None) -> None:
    """Refuse rows that are read in passes if a machine takes arrays only."""
    if streams(X, y):
        kind = "Classifier" if estimator._labels else "Regressor"
        raise DataError(
            f"{type(estimator).__name__} takes arrays and data frames, received a {type(X).__name__}; read the rows "
            "first (X.compute() of a Dask collection, numpy.concatenate of blocks), or fit "
            f"LSSVM{kind}(basis=...), which reads them in passes"
        )


def definite_gram(kernel: Kernel, X: Any) -> Gram:
    """Return the kernel matrix of the rows, tested for definiteness unless its formula guarantees that."""
    gram = Gram.of(kernel, X)
    if not kernel.trusted:
        gram.check_definite()
    return gram


def column_number(column: Any, where: str, n_features: int, names: Any = None) -> int:
    """Return the number of a column that is given ``where`` by number or by name."""
    if isinstance(column, str):
        columns = [] if names is None else [str(name) for name in names]
        if column not in columns:
            said = f"the columns are {list_some(columns)}" if columns else "X has no column names; give numbers"
            raise DeclarationError(f"{where} names the column {column!r}; {said}")
        return columns.index(column)
    if isinstance(column, bool) or not isinstance(column, (int, np.integer)) or not 0 <= column < n_features:
        raise DeclarationError(
            f"{where}: columns are integers from 0 to {n_features - 1} or names, received {column!r}"
        )
    return int(column)


def names_columns(kernel: Any) -> bool:
    """Return whether a kernel, or one inside of it, has columns, a width for each of them, or rows."""
    if isinstance(kernel, (tuple, list)):
        return any(map(names_columns, kernel)) or (bool(kernel) and not isinstance(kernel[0], Kernel))
    if not isinstance(kernel, Kernel):
        return False
    return kernel.pairwise or any(map(names_columns, kernel.get_params(deep=False).values()))


def list_some(things: Sequence[Any], most: int = 10) -> str:
    """Return the first things in words."""
    shown = ", ".join(map(str, things[:most]))
    return f"{shown}, ..." if len(things) > most else shown


@contextmanager
def explain_missing(estimator: Any) -> Iterator[None]:
    """Add to scikit-learn's refusal of missing cells in X a rule by which they can be filled in."""
    try:
        yield
    except ValueError as error:
        first = str(error).partition("\n")[0].rstrip(".")
        is_of_cells = first.startswith("Input X") and first.endswith("contains NaN")
        is_on_device = isinstance(error, DataError) and first.startswith("X contains NaN")
        if not (is_of_cells or is_on_device) or estimator.__sklearn_tags__().input_tags.pairwise:
            raise
        table = "TabularClassifier" if estimator._labels else "TabularRegressor"
        raise DataError(
            f"{first}, and a machine needs a number in every cell: put a rule before it, "
            f"make_pipeline(SimpleImputer(strategy='median'), ...); problems.tables.{table}(impute='median') does so "
            "for tables with text; or drop these rows"
        ) from error


def check_home(estimator: Any, home: Any, X: Any, name: str = "X") -> None:
    """Refuse rows of another library or device than the fitted model; arrays are not moved silently."""
    home_of_model, home_of_X = where_it_lives(home), where_it_lives(X)
    if home_of_model != home_of_X:
        advice = f"{name}.cpu().numpy(), {name}.get()"
        if is_device_array(home):
            advice = "model.to_numpy() takes the model to numpy"
        raise DataError(
            f"this {type(estimator).__name__} is fitted to arrays of {home_of_model}, {name} is {home_of_X}; "
            f"move {name} to them "
            f"({advice}), or fit where {name} is"
        )


#: Ratio of the columns' spreads beyond which a distance depends on one column only.
_SCALES_APART = 100.0


def warn_if_unscaled(model: Any, X: Any, columns: tuple[int, ...], kernel: Kernel) -> None:
    """Warn if the given columns of X, whose distances the kernel compares, have very different scales."""
    # Both spreads must differ: a pixel that is almost always dark has a small deviation but the range of all
    # others, a single outlier a large range but an ordinary deviation. Ranges are the cheaper ones.
    if len(columns) < 2:
        return
    points = to_numpy(X)[:, list(columns)]
    with np.errstate(over="ignore", invalid="ignore"):
        ranges = np.ptp(points, axis=0)
        (moving,) = np.nonzero(ranges > 0.0)
        if moving.size < 2 or ranges[moving].max() / ranges[moving].min() <= _SCALES_APART:
            return
        deviations = spreads_of(points)
        small, large = moving[deviations[moving].argmin()], moving[deviations[moving].argmax()]
        ratio = min(deviations[large] / deviations[small], ranges[large] / ranges[small])
    if ratio > _SCALES_APART:
        names = getattr(model, "feature_names_in_", np.arange(model.n_features_in_))
        warnings.warn(
            f"{kernel!r} compares distances, and column {names[columns[large]]!s} (standard deviation "
            f"{deviations[large]:.3g}) dominates column {names[columns[small]]!s} ({deviations[small]:.3g}); scale "
            "the columns first, for instance make_pipeline(StandardScaler(), ...), or give each its own width, "
            "RBF(sigma='each')",
            ScaleWarning,
            stacklevel=user_level(),
        )


def check_state(model: Any) -> None:
    """Refuse attributes that are inconsistent in shape, or whose trial prediction is not finite."""
    pairwise = model.__sklearn_tags__().input_tags.pairwise
    if model.kernel_.pairwise != pairwise:
        raise DataError(f"the fitted kernel {model.kernel_!r} does not belong to the kernel {model.kernel!r}")
    alpha, support = model.support_values_, model.support_
    n = alpha.shape[0]
    numbers = {"support_values_": model.support_values_, "the expansion": alpha, "bias_": model.bias_}
    if not pairwise:
        vectors = model.support_vectors_
        if vectors.shape != (n, model.n_features_in_):
            raise DataError(
                f"{n} support values over {model.n_features_in_} features do not belong to support vectors of shape "
                f"{vectors.shape}"
            )
        numbers["support_vectors_"] = vectors.data if is_sparse(vectors) else vectors
    for name, values in numbers.items():
        array = np.asarray(values)
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise DataError(f"{name} must hold finite floating point numbers, received some of dtype {array.dtype}")
    if support.dtype.kind not in "iu" or support.shape != (n,) or (n and support.min() < 0):
        raise DataError("the support indices and the support values do not belong together")
    if np.shape(model.bias_) != model._outputs() or len(model._outputs()) > 1:
        raise DataError(f"a bias of shape {np.shape(model.bias_)} does not belong to {model._outputs()} outputs")
    trial = np.zeros((1, model.n_features_in_)) if pairwise or n == 0 else model.support_vectors_[:1]
    with np.errstate(all="ignore"):
        values = model._evaluate(trial)
    if not np.isfinite(values).all():
        raise DataError("a trial prediction is not finite")
