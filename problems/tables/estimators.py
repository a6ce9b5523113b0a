"""Tabular estimators: frames in, predictions with intervals or probabilities out, by what ``substrate fit`` does.

Columns are read, left out, coded, filled in and scaled by the rules of :mod:`problems.tables.treatment`, each decision
a line of ``remarks_``; then the machine is the one that the command line would choose. ``save`` writes the file that
``substrate predict`` reads, and ``load`` reads one of ``substrate fit``.
"""

import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.guarantees import Guarantee
from problems.tables.fit import fit_prepared, prepare
from problems.tables.frames import Frame, frame_of
from problems.tables.inputs import UNKNOWN
from problems.tables.intervals import interval_ends, interval_guarantee
from problems.tables.models import MODELS, Choices, Weights
from problems.tables.preparation import IMPUTE
from problems.tables.sizes import BASIS
from problems.tables.table import Table, is_missing, number, read_table
from problems.tables.tabular_model import TabularModel
from problems.tables.treatment import CATEGORICAL, labels_of
from substrate.arrays import Array
from substrate.errors import DataError, DeclarationError, SubstrateError

__all__ = ["TabularClassifier", "TabularRegressor"]

#: The name of a target that has none.
_TARGET = "target"
_GROUP = "group"
_Returned = TypeVar("_Returned")
#: Options of the command line by the parameters that say the same.
_PARAMETERS = {
    "one-hot": "categories",
    "date": "dates",
    "drop": "drop",
    "ordered": "ordered",
    "class-weight": "class_weight",
    "n-basis": "n_basis",
    "no-standardise": "standardize",
    "validation": "validation_fraction",
    "group": "groups",
    "evaluations": "max_evaluations",
}
_OPTION = re.compile(r"--([a-z-]+)(?: ('[^']*'|[^\s,;)]+))?")
#: Parameters that hold names of columns, and words that are values of the others.
_OF_COLUMNS = ("categories", "dates", "drop")
_VALUES = {*IMPUTE, *UNKNOWN, *MODELS, "auto", "balanced", "regression", "classification", *CATEGORICAL}


@contextmanager
def _in_python() -> Iterator[None]:
    """Say refusals in the words of Python: ``impute='median'`` where the command line has ``--impute median``."""
    try:
        yield
    except SubstrateError as error:
        said = _OPTION.sub(_parameter, str(error))
        raise (DataError if isinstance(error, DataError) else DeclarationError)(said) from error


def _parameter(match: re.Match[str]) -> str:
    name = _PARAMETERS.get(match[1], match[1].replace("-", "_"))
    if match[2] is None:
        return name
    value = match[2].strip("'")
    if name in _OF_COLUMNS:
        return f"{name}=[{value!r}]"
    if number(value) is not None:
        return f"{name}={value}"
    return f"{name}={value!r}" if value in _VALUES else f"{name} {match[2]}"


@dataclass(eq=False, repr=False)
class _Tabular(BaseEstimator):
    """What regression and classification of tables share: parameters, fit, files; targets are those of the classes."""

    _task: ClassVar[str]

    model: str = "auto"
    _: KW_ONLY
    kernel: str = "families"
    sigma: float | None = None
    gamma: float | None = None
    categories: Sequence[str] = ()
    ordered: Mapping[str, Sequence[str]] | None = None
    dates: Sequence[str] = ()
    drop: Sequence[str] = ()
    impute: str = "refuse"
    unknown: str = "refuse"
    categorical: str = "one-hot"
    standardize: bool = True
    max_evaluations: int | None = None
    n_basis: int = BASIS
    validation_fraction: float = 0.0
    split: str = "random"
    random_state: int = 0
    verbose: int = 0

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit to a frame and its targets: one per row, or the name of the column of X that holds them.

        ``groups``, one label per row or the name of a column, says which rows belong together: the search leaves whole
        groups out, and whole groups judge.
        """
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        frame, target = self._with_target(self._read(X), y)
        frame, group, is_added = _with_groups(frame, groups)
        with _in_python():
            if target in self.drop:
                raise DataError(f"the target {target!r} cannot be left out (drop={list(self.drop)!r})")
            ready = prepare(frame.table.drop_columns(self.drop), self._choices(frame, target, group))
            fit = fit_prepared(ready)
        for message in fit.warnings:
            warnings.warn(message, stacklevel=2)
        self.remarks_ = ready.description
        self.quality_ = fit.quality
        if fit.quality.worse_than:
            warnings.warn(f"this model is {fit.quality.worse_than}; do not predict with it", UserWarning, stacklevel=2)
        no_inputs = (target, group) if is_added else (target,)
        self.feature_names_in_ = np.array([name for name in frame.table.names if name not in no_inputs], dtype=object)
        self.n_features_in_ = self.feature_names_in_.size
        self._keep(fit.saved)
        return self

    def _keep(self, model: TabularModel) -> None:
        self.certificate_ = model.estimator.certificate_
        self.estimator_ = model.estimator
        self.model_ = model

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.impute != "refuse"
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def _read(self, X: Any) -> Frame:
        if isinstance(X, (str, os.PathLike)):
            with _in_python():
                return Frame(read_table(X, decided=self.__sklearn_is_fitted__()))
        return frame_of(X)

    def _with_target(self, frame: Frame, y: Any) -> tuple[Frame, str]:
        """Return the frame with the target as one of its columns, and its name."""
        if y is None:
            raise DataError(f"{type(self).__name__} needs y: one target per row, or the name of a column of X")
        if isinstance(y, str):
            frame.table.column(y)
            cells = frame.table.column(y)
            self._keep_labels([cell for cell in cells if not is_missing(cell)], cells)
            return frame, y
        frame, name, values = _add_column(frame, str(getattr(y, "name", None) or _TARGET), y, "y")
        if absent := frame.table.missing(name):
            raise DataError(f"y has no value in {frame.table.name_rows(absent)}; leave these rows out")
        self._keep_labels(values, frame.table.column(name))
        return frame, name

    def _keep_labels(self, labels: Sequence[Any], cells: Sequence[str]) -> None:
        """Keep how classes are written; numbers have none."""

    def _choices(self, frame: Frame, target: str, group: str | None) -> Choices:
        """Return the choices of the command line that the parameters state."""
        names = [*self.categories, *(self.ordered or {}), *self.dates, *self.drop]
        for name in names:
            frame.table.column(name)
        asked = set(names) | {target, group}
        return Choices(
            target=target,
            task=self._task,
            model=self.model,
            kernel=self.kernel,
            sigma=self.sigma,
            weights=Weights(gamma=self.gamma),
            one_hot=[*self.categories, *(name for name in frame.categories if name not in asked)],
            ordered={name: order for name, order in frame.ordered.items() if name not in asked}
            | {name: tuple(map(str, order)) for name, order in (self.ordered or {}).items()},
            categorical=self.categorical,
            dates=[*self.dates, *(name for name in frame.dates if name not in asked)],
            standardise=self.standardize,
            validation=self.validation_fraction,
            seed=self.random_state,
            group=group,
            split=self.split,
            impute=self.impute,
            class_weight=getattr(self, "class_weight", None),
            n_basis=self.n_basis,
            evaluations=self.max_evaluations,
            shown=bool(self.verbose),
        )

    def _matrix(self, X: Any) -> Array:
        """Return the inputs of the machine for the rows of a frame."""
        check_is_fitted(self)
        table: Table = self._read(X).table
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] != self.n_features_in_:
            name, count = type(self).__name__, self.n_features_in_
            raise DataError(f"X has {X.shape[1]} features, but {name} is expecting {count} features as input")
        with _in_python():
            return self.model_.matrix(table, self.unknown)

    def remarks_on(self, X: Any) -> tuple[str, ...]:
        """Return what is done to new rows: cells that are filled in, categories that are not known."""
        check_is_fitted(self)
        return self.model_.remarks(self._read(X).table)

    def certify(self, X: Any, y: Any) -> Any:
        """Check the machine on the rows of its fit, given again, as its estimator does; all of them have to train."""
        check_is_fitted(self)
        frame, target = self._with_target(self._read(X), y)
        with _in_python():
            points = self.model_.matrix(frame.table)
        table = frame.table
        return self.estimator_.certify(points, labels_of(table, range(table.n_rows), target, self._task))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file that :meth:`load` and ``substrate predict`` read."""
        check_is_fitted(self)
        self.model_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], max_bytes: float | None = None) -> Self:
        """Read a model of :meth:`save` or of ``substrate fit``; parameters of the fit have their defaults."""
        model = TabularModel.load(path, max_bytes)
        if model.preparation is None or model.preparation.task != cls._task:
            what = "no preparation of a table" if model.preparation is None else f"a model of {model.preparation.task}"
            raise DataError(f"{path} holds {what}; use problems.load, or the other tabular estimator")
        loaded = cls()
        loaded.standardize, loaded.impute = model.preparation.standardised, model.preparation.impute
        loaded.remarks_ = model.preparation.remarks
        names = [input_.name for input_ in model.preparation.inputs]
        loaded.feature_names_in_, loaded.n_features_in_ = np.array(names, dtype=object), len(names)
        loaded._keep_loaded(model)
        loaded._keep(model)
        return loaded

    def _keep_loaded(self, model: TabularModel) -> None:
        """Keep what the labels of a file are; numbers have none."""


def _with_groups(frame: Frame, groups: Any) -> tuple[Frame, str | None, bool]:
    """Return the frame with the groups as one of its columns, the name of that, and whether it was added."""
    if groups is None or isinstance(groups, str):
        return frame, groups, False
    frame, name, _ = _add_column(frame, _GROUP, groups, "groups")
    return frame, name, True


def _add_column(frame: Frame, name: str, column: Any, what: str) -> tuple[Frame, str, list[Any]]:
    """Return the frame with one more column, the name that it has there, and its values."""
    while name in frame.table.columns:
        name += "_"
    values = column.to_list() if hasattr(column, "to_list") else np.asarray(column).tolist()
    if np.ndim(values) != 1 or len(values) != frame.table.n_rows:
        raise DataError(
            f"{what} must have one {'target' if what == 'y' else 'label'} for each of the {frame.table.n_rows} rows of "
            f"X, received shape {np.shape(values)}"
        )
    added = frame_of({name: values}, what).table
    table = replace(
        frame.table,
        columns={**frame.table.columns, name: added.column(name)},
        typed=frame.table.typed | added.typed,
    )
    return replace(frame, table=table), name, values


class TabularRegressor(RegressorMixin, _Tabular):
    """Regression on a table as it comes, by what ``substrate fit`` does.

    Parameters
    ----------
    model : {"auto", "stack", "lssvm", "robust", "sparse"}, default="auto"
        ``"auto"`` is one LS-SVM on all rows, above 2000 rows the one on ``n_basis`` vectors; ``"stack"`` is the
        weighted mean of all machines that the search fits.
    kernel : str, default="families"
        The best of all families, refined where the rows are few; or the name of one kernel, at a few widths.
    sigma, gamma : float, default=None
        Width of the kernel and weight of the errors; chosen unless given.
    categories : list of str, default=()
        Columns to code as categories, one 0-1 input each; text with few values and categorical columns of a frame are.
    ordered : dict, default=None
        Columns whose categories have an order, with the categories in it; ordered categorical columns are ranks too.
    dates : list of str, default=()
        Columns of text that are dates, to use as days since the first one; columns of dates are.
    drop : list of str, default=()
        Columns to leave out.
    impute : {"refuse", "median", "drop"}, default="refuse"
        What is done about missing cells: refuse; fill in the median of the training rows, for categories a category of
        their own; or leave their rows out of the fit.
    unknown : {"refuse", "ignore"}, default="refuse"
        What is done about categories that the fit did not see: refuse, or predict as of none of the known ones.
    categorical : {"one-hot", "kernel"}, default="one-hot"
        Categories as 0-1 inputs; or by a kernel of their own, :class:`~substrate.kernels.Categorical`, which is
        multiplied with that of the numbers and has a width for each column.
    standardize : bool, default=True
        Whether numbers are brought to mean 0 and standard deviation 1 over the training rows.
    max_evaluations : int, default=None
        Kernels that are tried along slopes; as the command line unless given.
    n_basis : int, default=300
        Vectors of a sparse model.
    validation_fraction : float, default=0.0
        Share of the rows that judges the model; it is then fitted again to all rows.
    split : {"random", "time"}, default="random"
        Whether rows follow each other in time, by the first column of ``dates`` or in their order: then the last rows
        judge, and the search leaves every row out with its neighbours.
    random_state : int, default=0
        Seed of the rows held out and of a basis.
    verbose : int, default=0
        Whether bars on the terminal show how far a fit is.

    Attributes
    ----------
    estimator_
        The fitted machine, an estimator of :mod:`problems` on the prepared columns.
    model_ : TabularModel
        The machine with its preparation of tables.
    certificate_ : Certificate
        That of the machine.
    remarks_ : tuple of str
        One line for everything that was done to the table.
    quality_ : Quality
        The error on rows that were left out, or held out, beside that of a prediction that looks at no input.
    feature_names_in_, n_features_in_
        The columns of the frame.

    Examples
    --------
    >>> from problems.tables import TabularRegressor
    >>> rows = {"size": [40.0, 55.0, 62.0, 80.0, 41.0, 70.0], "heating": ["gas", "gas", "oil", "gas", "oil", "oil"]}
    >>> model = TabularRegressor(max_evaluations=0).fit(rows, [200.0, 260.0, 280.0, 380.0, 190.0, 320.0])
    >>> model.predict({"size": [60.0], "heating": ["gas"]}).shape, bool(model.certificate_.holds)
    ((1,), True)
    """

    _task = "regression"

    def predict(self, X: Any) -> Array:
        """Predict the rows of a frame, or of a file."""
        X = self._matrix(X)
        return np.asarray(self.estimator_.predict(X))

    def predict_interval(self, X: Any, coverage: float = 0.9, method: str = "auto") -> Array:
        """Return lower and upper ends that are to hold a new target with probability ``coverage``, as the machine does.

        After a search on fewer than 1000 rows the default repeats it without each of ten folds, at the first call.
        """
        X = self._matrix(X)
        with _in_python():
            return interval_ends(self.estimator_, X, coverage, method)

    def interval_guarantee(self, coverage: float = 0.9, method: str = "auto") -> Guarantee:
        """Return what :meth:`predict_interval` guarantees, with what the preparation of the table breaks of it."""
        check_is_fitted(self)
        with _in_python():
            return interval_guarantee(self.estimator_, self.model_.preparation, coverage, method)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R^2 of the predictions; ``y`` may be the name of a column of X."""
        from sklearn.metrics import r2_score  # as in scikit-learn: imported only to score

        frame, target = self._with_target(self._read(X), y)
        table = frame.table
        targets = labels_of(table, range(table.n_rows), target, "regression")
        return float(r2_score(targets, self.predict(X), sample_weight=sample_weight))


@dataclass(eq=False, repr=False)
class TabularClassifier(ClassifierMixin, _Tabular):
    """Classification on a table as it comes, by what ``substrate fit`` does.

    Parameters
    ----------
    model, kernel, sigma, gamma, categories, ordered, dates, drop, impute, unknown, categorical, standardize, \
max_evaluations, n_basis, validation_fraction, split, random_state, verbose
        As for :class:`TabularRegressor`, without the robust model.
    class_weight : dict or "balanced", default=None
        Weights of the classes, by their labels as text.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels as they were given, sorted.
    estimator_, model_, certificate_, remarks_, quality_, feature_names_in_, n_features_in_
        As for :class:`TabularRegressor`.
    """

    _task = "classification"

    class_weight: Mapping[str, float] | str | None = None

    def _keep_labels(self, labels: Sequence[Any], cells: Sequence[str]) -> None:
        """Keep the labels as they were given, in the order of those of the machine."""
        if self.__sklearn_is_fitted__():
            return
        given = dict(zip([cell for cell in cells if not is_missing(cell)], labels, strict=True))
        table = Table("y", {_TARGET: tuple(given)})
        coded = labels_of(table, range(table.n_rows), _TARGET, "classification")
        order = np.argsort(coded, kind="stable")
        kinds = list(given.values())
        self.classes_ = np.array([kinds[k] for k in order.tolist()])

    def _keep_loaded(self, model: TabularModel) -> None:
        self.classes_ = np.asarray(model.estimator.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the labels of the rows of a frame, or of a file."""
        X = self._matrix(X)
        places = np.searchsorted(self.estimator_.classes_, np.asarray(self.estimator_.predict(X)))
        return np.asarray(self.classes_[places])

    def decision_function(self, X: Any) -> Array:
        """Return the outputs of the machine."""
        return np.asarray(self._ask(self.estimator_.decision_function, X))

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities of the classes, calibrated by rows that were left out."""
        return np.asarray(self._ask(self.estimator_.predict_proba, X))

    def predict_set(self, X: Any, coverage: float = 0.9) -> NDArray[Any]:
        """Return which labels belong to the set that holds the true one with probability ``coverage``."""
        return np.asarray(self._ask(self.estimator_.predict_set, X, coverage))

    def _ask(self, method: Callable[..., _Returned], X: Any, *arguments: Any) -> _Returned:
        points = self._matrix(X)
        with _in_python():
            return method(points, *arguments)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of labels that are predicted; ``y`` may be the name of a column of X."""
        from sklearn.metrics import accuracy_score  # as in scikit-learn: imported only to score

        labels: Any = y
        if isinstance(y, str):
            given = {str(label): label for label in self.classes_.tolist()}
            labels = [given.get(cell, cell) for cell in self._read(X).table.column(y)]
        return float(accuracy_score(labels, self.predict(X), sample_weight=sample_weight))
