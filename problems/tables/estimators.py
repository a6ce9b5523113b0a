r"""Tabular estimators: tables in, predictions with intervals or probabilities out, as by ``substrate fit``.

Columns are read, left out, coded, filled in and scaled by the rules of :mod:`problems.tables.columns`, each decision a
line of ``remarks_``. ``save`` writes a file that :func:`problems.load` and ``substrate predict`` read.
"""

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.guarantees import Guarantee
from problems.tables.columns import (
    Input,
    Treated,
    dates_of,
    decimals_of,
    describe_imputation,
    describe_unknown,
    labels_of,
    prepare,
    raw_matrix,
    treat,
)
from problems.tables.machines import MOST_DENSE, Search, divide
from problems.tables.number_format import numbers_of
from problems.tables.options import check_options
from problems.tables.predictions import interval_ends, interval_guarantee, make_intervals
from problems.tables.quality import Quality
from problems.tables.table import Table, is_missing, named_columns, read_table
from substrate.arrays import Array
from substrate.errors import DataError, DeclarationError
from substrate.files import save, stored

__all__ = ["Judged", "Preparation", "TabularClassifier", "TabularRegressor", "around"]

#: The name of a target that has none.
_TARGET = "target"
#: Digits behind the point of probabilities, less the one that predictions have more.
_OF_PROBABILITIES = 5
#: The least that the smallest class may be of the largest one without a word.
_BALANCED = 0.25
_UNEQUAL = "; unequal: class_weight='balanced' counts them alike"


@stored
@dataclass(frozen=True, slots=True)
class Preparation:
    """The steps by which a table becomes the inputs of a machine."""

    #: The name of the table, without its folder, and of its target.
    source: str
    target: str
    inputs: tuple[Input, ...]
    #: Whether the machine was fitted again, to all rows, by what was chosen on the training rows.
    refitted: bool = False
    #: Digits behind the point in the targets of the table, None where they are unknown or have an exponent.
    decimals: int | None = None
    #: One line for everything that was done to the table.
    remarks: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """Return the names of the columns of X."""
        return tuple(feature for entry in self.inputs for feature in entry.features)

    @property
    def columns_of_inputs(self) -> list[list[int]]:
        """Return the columns of X that every input has: one, or one for each of its categories."""
        ends = np.cumsum([len(entry.features) for entry in self.inputs]).tolist()
        return [list(range(start, end)) for start, end in zip([0, *ends], ends, strict=False)]

    def scale(self, X: Array) -> Array:
        """Return the result of :func:`raw_matrix`, scaled as in training."""
        center, scale = (
            np.array([getattr(entry, name) for entry in self.inputs for _ in entry.features])
            for name in ("center", "scale")
        )
        with np.errstate(over="ignore"):
            return np.asarray((X - center) / scale)


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The machine of the training rows, prepared as ``X, y``, and its quality on other rows."""

    machine: Any
    search: Search
    X: Array
    y: NDArray[Any]
    X_val: Array
    y_val: NDArray[Any]
    quality: Quality
    warnings: tuple[str, ...]


@dataclass(eq=False, repr=False)
class _Tabular(BaseEstimator):
    """A base of the tabular estimators: parameters, fit, files; the subclasses decide what targets are."""

    _task: ClassVar[str]

    model: str = "auto"
    _: KW_ONLY
    kernel: Any = "families"
    sigma: float | None = None
    gamma: float | None = None
    categories: Sequence[str] = ()
    dates: Sequence[str] = ()
    id: Sequence[str] = ()
    drop: Sequence[str] = ()
    group: str | None = None
    time: str | bool | None = None
    impute: str = "refuse"
    unknown: str = "refuse"
    categorical: str = "one-hot"
    standardize: bool = True
    decimal: str | None = None
    thousands: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    seconds: float | None = None
    max_evaluations: int | None = None
    n_basis: int | None = None
    validation: float = 0.0
    refit: bool = True
    random_state: int = 0
    verbose: int = 0

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to a table and its targets: one per row, or the name of the column of X that holds them."""
        check_options(self)
        start, limit = time.monotonic(), self.seconds
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        table, target = self._with_target(self.read(X), y)
        treated = treat(table, self, target, self._task)
        labels = treated.y if self._task == "classification" else None
        weights = getattr(self, "class_weight", None)
        groups = None if self.group is None else np.array(treated.table.column(self.group))
        chosen = {"labels": labels, "groups": groups, "times": self._times(treated.table)}
        train, held_out = divide(treated.y.size, self.validation, self.random_state, **chosen)
        if labels is not None and np.unique(labels[train]).size < 2:
            raise DataError(
                f"the rows that train have one class only, {labels[train][0]!s}; give another random_state, a smaller "
                "validation, or leave group and time out"
            )
        model = "lssvm" if train.size <= MOST_DENSE else "sparse"
        search = Search(
            task=self._task,
            model=model if self.model == "auto" else self.model,
            kernel=self.kernel,
            sigma=self.sigma,
            gamma=self.gamma,
            class_weight=_weights_of_classes(labels, weights),
            n_basis=self.n_basis,
            max_evaluations=self.max_evaluations,
            random_state=self.random_state,
            verbose=self.verbose,
            groups=None if groups is None else groups[train],
            in_time=self.is_in_time,
        )
        preparation, X_all = self._prepare(treated, target, train)
        features = [entry for entry in preparation.inputs for _ in entry.features]
        search = replace(
            search,
            seconds=None if limit is None else max(limit - (time.monotonic() - start), 0.01 * limit),
            category_columns=tuple(number for number, entry in enumerate(features) if entry.by_kernel),
            time_column=next((number for number, entry in enumerate(features) if entry.name == self.time), None),
        )
        remarks = [
            treated.remarks[0],
            self._describe_rows(train.size, held_out.size, search),
            *preparation.remarks,
            *([] if labels is None else [_describe_classes(labels, weights)]),
            f"inputs: {len(features)}, {'standardised by the training rows' if self.standardize else 'as they are'}",
        ]
        if model == "sparse" and self.model == "auto":
            remarks.append(
                f"model: sparse, on basis vectors, since more than {MOST_DENSE} rows train (model='lssvm' for all of "
                "them, n_basis=... for a number of vectors)"
            )
        preparation = replace(preparation, remarks=tuple(remarks))
        self._fit_machines(search, preparation, X_all, treated.y, train, held_out)
        names = [name for name in treated.table.columns if name not in (target, self.group)]
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = self.feature_names_in_.size
        return self

    def _fit_machines(
        self, search: Search, preparation: Preparation, X: Array, y: NDArray[Any], train: Any, held_out: Any
    ) -> None:
        """Fit to the training rows, measure the quality on the others, and fit again to all."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            machine, ended_by_time = search.fit(X[train], y[train])
            search = replace(search, ended_by_time=ended_by_time)
            if self._task == "classification":
                make_intervals(machine, X[train])  # by its training rows, left out; the held-out rows test it
            elif held_out.size:
                machine.calibrate(X[held_out], y[held_out])
            quality = search.judge(machine, X[train], y[train], X[held_out], y[held_out])
            reported = {warning.category for warning in caught}
            first, last = len(caught), machine
            if self.refit and held_out.size:
                whole = replace(search, groups=None)
                last = whole.refit(machine, X, y)
                if self._task == "regression":
                    last._chosen_by = clone(machine)  # nested intervals repeat the search
                # what rounding hides on more rows is no better for being fitted to them
                if not last.certificate_.holds and machine.certificate_.holds:
                    last, caught = machine, caught[:first]
                if self._task == "classification":
                    make_intervals(last, X)
        # a warning of the same kind about nearly the same rows is no news
        news = [*caught[:first], *(warning for warning in caught[first:] if warning.category not in reported)]
        said = tuple(dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in news))
        self._judged = Judged(
            machine=machine,
            search=search,
            X=X[train],
            y=y[train],
            X_val=X[held_out],
            y_val=y[held_out],
            quality=quality,
            warnings=said,
        )
        for warning in news:
            warnings.warn(str(warning.message), warning.category, stacklevel=3)
        if quality.worse_than:
            warnings.warn(f"this model is {quality.worse_than}; do not predict with it", UserWarning, stacklevel=3)
        self.estimator_ = last
        self.preparation_ = replace(preparation, refitted=last is not machine)

    @property
    def certificate_(self) -> Any:
        """The certificate of the machine."""
        return self._machine.certificate_

    @property
    def remarks_(self) -> tuple[str, ...]:
        """One line for everything that was done to the table."""
        check_is_fitted(self)
        return self.preparation_.remarks

    @property
    def judged_(self) -> Judged:
        """The machine of the training rows, with these rows and the held-out ones; a loaded model has none."""
        check_is_fitted(self)
        if not hasattr(self, "_judged"):
            raise AttributeError(
                f"this {type(self).__name__} was loaded from a file, which does not hold the rows of the fit"
            )
        return self._judged

    @property
    def quality_(self) -> Quality:
        """The error on left-out or held-out rows, and the error of a prediction that ignores the inputs."""
        check_is_fitted(self)
        return self.judged_.quality

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.impute != "refuse"
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    @property
    def _machine(self) -> Any:
        check_is_fitted(self)
        return self.estimator_

    @property
    def is_in_time(self) -> bool:
        """Return whether the rows are in the order of time."""
        return self.time is not None and self.time is not False

    def read(self, X: Any) -> Table:
        """Return a file, a frame or an array as a table, by the marks that the parameters state."""
        return read_table(X, self.delimiter, self.decimal, self.thousands, self.encoding)

    def _with_target(self, table: Table, y: Any) -> tuple[Table, str]:
        """Return the table with the target as one of its columns, and its name."""
        if y is None:
            raise DataError(f"{type(self).__name__} needs y: one target per row, or the name of a column of X")
        if isinstance(y, str):
            table.column(y)
            return table, y
        table, name = table.with_column(str(getattr(y, "name", None) or _TARGET), y, "y")
        if absent := table.missing(name):
            raise DataError(f"y has no value in {table.name_rows(absent)}; leave these rows out")
        return table, name

    def _times(self, table: Table) -> NDArray[Any] | None:
        """Return the time of every row: a column of dates or numbers, or its place in the table."""
        if not self.is_in_time:
            return None
        if not isinstance(self.time, str):
            return np.arange(table.n_rows)
        cells = table.column(self.time)
        if lacking := table.missing(self.time):
            raise DataError(
                f"column {self.time!r} of {table.source} has no value in {table.name_rows(lacking)}, so that it cannot "
                "order the rows; correct these cells"
            )
        if (numbers := numbers_of(cells)) is not None:
            return np.array(numbers)
        if (dates := dates_of(cells)) is None:
            raise DataError(
                f"column {self.time!r} of {table.source} does not hold dates in one clear format; write them as "
                "2024-01-31"
            )
        return np.array([(date - min(dates[1])).total_seconds() for date in dates[1]])

    def _prepare(self, treated: Treated, target: str, train: NDArray[Any]) -> tuple[Preparation, Array]:
        """Return the preparation of the table, from the training rows, and its inputs in units of the machine."""
        inputs, raw, imputed = prepare(treated, train.tolist(), self)
        cells = treated.table.column(target)
        preparation = Preparation(
            source=Path(treated.table.source).name or treated.table.source,
            target=target,
            inputs=inputs,
            decimals=decimals_of(cells) if self._task == "regression" else _OF_PROBABILITIES,
            remarks=(*treated.remarks[1:], *imputed),
        )
        return preparation, preparation.scale(raw)

    def _describe_rows(self, n_train: int, n_held: int, search: Search) -> str:
        alone = "neighbours in time are left out together"
        together = {"groups": "whole groups are left out together", "blocks": alone}
        if self._task == "regression":
            together["blocks"] = "earlier rows predict later ones to choose"
        is_together = search.rule in together and (not n_held or self.gamma is None)
        left_out = f"; {together[search.rule]}" if is_together else ""
        if not n_held:
            return f"rows: all {n_train} train, none are held out{left_out}"
        drawn = "drawn at random" if self.group is None else "whole groups, drawn at random"
        if self.is_in_time:
            drawn = f"the last in time, by {self.time}" if isinstance(self.time, str) else "the last of the table"
        return f"rows: {n_train} train, {n_held} held out to test the model ({drawn}){left_out}"

    def matrix(self, X: Any) -> Array:
        """Return the inputs of the machine for the rows of a table."""
        check_is_fitted(self)
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] != self.n_features_in_:
            name, count = type(self).__name__, self.n_features_in_
            raise DataError(f"X has {X.shape[1]} features, but {name} is expecting {count} features as input")
        return self.preparation_.scale(raw_matrix(self.preparation_.inputs, self.read(X), self.unknown))

    def remarks_on(self, X: Any) -> tuple[str, ...]:
        """Return remarks on new rows: how they are read, which cells are filled in, and unknown categories."""
        check_is_fitted(self)
        table, inputs = self.read(X), self.preparation_.inputs
        return (*table.remarks, *describe_imputation(inputs, table), *describe_unknown(inputs, table))

    def certify(self, X: Any, y: Any) -> Any:
        """Check the machine on its training rows, given again, as its estimator does; no row may be held out."""
        check_is_fitted(self)
        table, target = self._with_target(self.read(X), y)
        return self.estimator_.certify(self.matrix(table), labels_of(table, target, self._task))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file that :func:`problems.load` and ``substrate predict`` read.

        Where the search is to be repeated for intervals, that is done first: the file does not hold how it searched.
        """
        check_is_fitted(self)
        if hasattr(self, "_judged"):
            make_intervals(self.estimator_, self.judged_.X[:1])
        save(self, path)

    def _check_loaded(self) -> None:
        """Refuse a preparation and a machine from a file that do not fit each other."""
        if not isinstance(self.preparation_, Preparation) or not hasattr(self.estimator_, "kernel_"):
            raise DataError("it has no preparation of a table, or no fitted machine")
        if hasattr(self.estimator_, "classes_") != isinstance(self, TabularClassifier):
            raise DataError(f"a {type(self).__name__} holds a {type(self.estimator_).__name__}")
        n_inputs, n_features = len(self.preparation_.features), self.estimator_.n_features_in_
        if n_inputs != n_features:
            raise DataError(f"it prepares {n_inputs} inputs for a model of {n_features}")


def around(machine: Any) -> "TabularRegressor | TabularClassifier":
    """Return a tabular estimator around a fitted machine whose inputs are columns of a table, unchanged."""
    names = getattr(machine, "feature_names_in_", [f"x{k}" for k in range(machine.n_features_in_)])
    model = TabularClassifier() if hasattr(machine, "classes_") else TabularRegressor()
    if isinstance(model, TabularClassifier):
        model.classes_ = np.asarray(machine.classes_)
    model.standardize, model.estimator_ = False, machine
    model.preparation_ = Preparation("", "", tuple(Input(str(name)) for name in names))
    model.feature_names_in_, model.n_features_in_ = np.array(names, dtype=object), len(names)
    return model


class TabularRegressor(RegressorMixin, _Tabular):
    """Regression on a raw table, by the steps of ``substrate fit``.

    Parameters
    ----------
    model : {"auto", "stack", "lssvm", "sparse"}, default="auto"
        ``"auto"`` is one LS-SVM on all rows, above 2000 rows the one on ``n_basis`` vectors; ``"stack"`` is the
        weighted mean of all machines that the search fits.
    kernel : str, default="families"
        The best of all families, refined where the rows are few; or one kernel, at a few widths.
    sigma, gamma : float, default=None
        Width of the kernel and weight of the errors; chosen unless given.
    categories : list of str, default=()
        Columns to code as categories, one 0-1 input each; text with few values and categorical columns of a frame are.
    dates : list of str, default=()
        Columns of text to read as dates, which become days since the first one, as columns of dates do.
    id : list of str, default=()
        Columns that name the rows: not inputs, but written next to the predictions.
    drop : list of str, default=()
        Columns to leave out.
    group : str, default=None
        The column that names the groups: rows of one group are left out together, and held out together.
    time : str or bool, default=None
        The column of dates or numbers that orders the rows, or True where they are in the order of time: then the last
        rows are held out, and the search predicts later rows from earlier ones.
    impute : {"refuse", "median", "drop"}, default="refuse"
        What is done about missing cells: refuse; fill in the median of the training rows, for categories a separate
        category; or leave their rows out of the fit.
    unknown : {"refuse", "ignore"}, default="refuse"
        What is done about categories that the fit did not see: refuse, or predict as for none of the known categories.
    categorical : {"one-hot", "kernel"}, default="one-hot"
        Categories as 0-1 inputs; or by a separate kernel, :class:`~substrate.kernels.Categorical`, which is
        multiplied with the kernel of the numbers and has a width for each column.
    standardize : bool, default=True
        Whether numbers are brought to mean 0 and standard deviation 1 over the training rows.
    decimal, thousands, delimiter, encoding : str, default=None
        How numbers and cells of a file are written, where that cannot be recognised.
    seconds : float, default=None
        About how many seconds the fit may take. The search of kernels and of a basis ends early, and the result depends
        on the speed of the processor.
    max_evaluations : int, default=None
        The most kernels that the gradient search tries; 40 for up to 1000 rows, otherwise none.
    n_basis : int, default=None
        Vectors of a sparse model; by default 300, or up to 1200 as long as twice as many lower the left-out error.
    validation : float, default=0.0
        Share of the rows that are held out to test the model.
    refit : bool, default=True
        Whether the model is fitted again to all rows after the test on the held-out rows.
    random_state : int, default=0
        Seed of the rows held out and of a basis.
    verbose : int, default=0
        Whether a progress bar is shown on the terminal.

    Attributes
    ----------
    estimator_
        The fitted machine, an estimator of :mod:`problems` on the prepared columns.
    preparation_ : Preparation
        How the columns of a table become its inputs.
    certificate_ : Certificate
        The certificate of the machine.
    remarks_ : tuple of str
        One line for everything that was done to the table.
    judged_ : Judged
        The machine of the training rows, with these rows and the held-out ones.
    feature_names_in_, n_features_in_
        The columns of the table.

    Examples
    --------
    >>> from problems import TabularRegressor
    >>> rows = {"size": [40.0, 55.0, 62.0, 80.0, 41.0, 70.0], "heating": ["gas", "gas", "oil", "gas", "oil", "oil"]}
    >>> model = TabularRegressor(max_evaluations=0).fit(rows, [200.0, 260.0, 280.0, 380.0, 190.0, 320.0])
    >>> model.predict({"size": [60.0], "heating": ["gas"]}).shape, bool(model.certificate_.holds)
    ((1,), True)
    """

    _task = "regression"

    def predict(self, X: Any) -> Array:
        """Predict the rows of a table."""
        return np.asarray(self._machine.predict(self.matrix(X)))

    def predict_interval(self, X: Any, coverage: float = 0.9, method: str = "auto") -> Array:
        """Return lower and upper ends that are to hold a new target with probability ``coverage``, as the machine does.

        After a search on fewer than 1000 rows the default repeats it without each of ten folds, at the first call.
        """
        X = self.matrix(X)
        return interval_ends(self.estimator_, X, coverage, method)

    def interval_guarantee(self, coverage: float = 0.9, method: str = "auto") -> Guarantee:
        """Return what :meth:`predict_interval` guarantees, and how the preparation of the table weakens it."""
        check_is_fitted(self)
        return interval_guarantee(self, coverage, method)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R^2 of the predictions; ``y`` may be the name of a column of X."""
        table, target = self._with_target(self.read(X), y)
        return float(super().score(X, labels_of(table, target, "regression"), sample_weight))


@dataclass(eq=False, repr=False)
class TabularClassifier(ClassifierMixin, _Tabular):
    """Classification on a raw table, by the steps of ``substrate fit``.

    Parameters
    ----------
    model, kernel, sigma, gamma, categories, dates, id, drop, group, time, impute, unknown, categorical, standardize, \
decimal, thousands, delimiter, encoding, seconds, max_evaluations, n_basis, validation, refit, random_state, verbose
        As for :class:`TabularRegressor`, without the robust model.
    class_weight : dict or "balanced", default=None
        Weights of the classes, by their labels as text.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels as they were given, sorted.
    estimator_, preparation_, certificate_, remarks_, judged_, feature_names_in_, n_features_in_
        As for :class:`TabularRegressor`.
    """

    _task = "classification"

    class_weight: Mapping[str, float] | str | None = None

    def _with_target(self, table: Table, y: Any) -> tuple[Table, str]:
        """Return the table with the target as one of its columns, and its name; at a fit, keep the labels as given."""
        table, target = super()._with_target(table, y)
        if not self.__sklearn_is_fitted__():
            cells = [cell for cell in table.column(target) if not is_missing(cell)]
            given = dict(zip(cells, cells if isinstance(y, str) else np.asarray(y).tolist(), strict=True))
            coded = labels_of(Table("y", {_TARGET: tuple(given)}), _TARGET, "classification")
            kinds = list(given.values())
            self.classes_ = np.array([kinds[k] for k in np.argsort(coded, kind="stable").tolist()])
        return table, target

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the labels of the rows of a table."""
        predicted = np.asarray(self._machine.predict(self.matrix(X)))
        return np.asarray(self.classes_[np.searchsorted(self.estimator_.classes_, predicted)])

    def decision_function(self, X: Any) -> Array:
        """Return the outputs of the machine."""
        return np.asarray(self._machine.decision_function(self.matrix(X)))

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities of the classes, calibrated by rows that were left out."""
        return np.asarray(self._machine.predict_proba(self.matrix(X)))

    def predict_set(self, X: Any, coverage: float = 0.9) -> NDArray[Any]:
        """Return which labels belong to the set that holds the true one with probability ``coverage``."""
        return np.asarray(self._machine.predict_set(self.matrix(X), coverage))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of labels that are predicted; ``y`` may be the name of a column of X."""
        labels: Any = y
        if isinstance(y, str):
            given = {str(label): label for label in self.classes_.tolist()}
            labels = [given.get(cell, cell) for cell in self.read(X).column(y)]
        return float(super().score(X, labels, sample_weight))


def _weights_of_classes(labels: Any, weights: Any) -> Any:
    """Return the weights of the classes by the machine's labels."""
    if weights is None or isinstance(weights, str):
        return weights
    by_name = {str(label): label for label in np.unique(labels).tolist()}
    if strange := [name for name in weights if str(name) not in by_name]:
        raise DeclarationError(
            f"class_weight names the class {strange[0]!r}; the classes are {named_columns(list(by_name))}"
        )
    return {by_name[str(name)]: float(weight) for name, weight in weights.items()}


def _describe_classes(labels: Any, weights: Any) -> str:
    """Return the classes and their sizes, with advice where these differ much."""
    classes, counts = np.unique(labels, return_counts=True)
    pairs = zip(classes, counts, strict=True)
    listed = named_columns([f"{label} ({count} {'row' if count == 1 else 'rows'})" for label, count in pairs])
    if isinstance(weights, str):
        return f"classes: {listed}; weighted, so that all count alike"
    if weights is not None:
        return f"classes: {listed}; weighted: {', '.join(f'{label} {weight:g}' for label, weight in weights.items())}"
    return f"classes: {listed}{_UNEQUAL if counts.min() < _BALANCED * counts.max() else ''}"
