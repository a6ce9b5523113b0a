"""``substrate fit --series``: a table in the order of time, a regression on its own past, and forecasts of later rows.

The last rows of the table judge the model, since rows drawn at random would lie between those that it was fitted to.
"""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from problems.command_line.report.page import Picture, code, figures, page, paragraph, section, table
from problems.command_line.report.pictures import Canvas, PicturePlan, draw_plans
from problems.displays.canvas import ACCENT, GREY, axes_for
from problems.estimators.chosen.selection import LSSVMRegressorCV
from problems.estimators.full.ls_svm import LSSVMRegressor
from problems.estimators.series.narx import NARXRegressor
from problems.tables.inputs import raw_matrix
from problems.tables.table import Table, named_columns
from problems.tables.treatment import ColumnOptions, treat
from substrate.arrays import Array
from substrate.errors import DataError
from substrate.kernels import RBF, Linear
from substrate.uncertainty.adaptive import SeriesIntervals
from substrate.windows import read_delays

__all__ = ["SeriesChoices", "SeriesFit", "describe_series", "fit_series", "predict_series", "series_report"]

#: The numbers of lags that are compared unless some are given.
_CANDIDATES = (1, 2, 3, 4, 6, 8, 12)
#: Widths, in deviations of the series times the root of twice the columns, from which a search of the kernel begins.
_WIDTHS = (1.0, 2.0)
_COVERAGE = 0.9
#: Folds in which earlier windows predict later ones, and the windows from which there are folds.
_FOLDS, _FEWEST_WINDOWS = 5, 30


@dataclass(frozen=True, slots=True)
class SeriesChoices:
    """The choices of the command line: the target, lags of it and of the inputs, steps, and the share that judges."""

    target: str
    lags: int | None = None
    input_lags: int = 0
    horizon: int = 1
    validation: float = 0.25
    dates: Sequence[str] = ()
    ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SeriesFit:
    """A model fitted to the first rows, what the later ones say of it, and the model that is saved, fitted to all.

    ``naive`` is the value before, which needs no model; ``free_run`` the forecast of all later rows at once.
    """

    model: NARXRegressor
    saved: NARXRegressor
    choices: SeriesChoices
    first_rows: int
    later: Array
    one_step: Array
    naive: Array
    free_run: Array
    intervals: SeriesIntervals | None
    remarks: tuple[str, ...]


def fit_series(source: Table, choices: SeriesChoices) -> SeriesFit:
    """Fit to the first rows, forecast the later ones, and fit again to all."""
    options = ColumnOptions(
        target=choices.target, task="regression", dates=choices.dates, ids=choices.ids, is_series=True
    )
    treated = treat(source, options)
    if len(treated.rows) != source.n_rows:
        raise DataError(
            f"{source.n_rows - len(treated.rows)} of {source.n_rows} rows have no target, and a series has no gaps: "
            "fill them in, or give the part of the table without gaps"
        )
    if not 0.0 <= choices.validation < 1.0:
        raise DataError(f"--validation must be at least 0 and below 1, received {choices.validation:g}")
    y = np.asarray(treated.y, dtype=np.float64)
    X = None
    if choices.input_lags:
        if not treated.inputs:
            raise DataError("--input-lags needs other columns than the target, and there are none; leave it out")
        X = raw_matrix(treated.inputs, treated.table)
    n_later = int(choices.validation * y.size)
    first = y.size - n_later
    candidates = _candidates(choices, first)
    chooser = _search(first - max(candidates), choices.horizon, max(candidates))
    model = NARXRegressor(chooser, inputs=choices.input_lags, horizon=choices.horizon, candidates=list(candidates)).fit(
        None if X is None else X[:first], y[:first]
    )
    later_X = None if X is None else X[first:]
    one_step, free_run, intervals = np.empty(0), np.empty(0), None
    if n_later:
        one_step = model.predict_one_step(X, y)[first:]
        free_run = model.forecast(n_later, later_X)
        intervals = model.follow(later_X, y[first:], coverage=_COVERAGE)
    chosen = model.regressor_
    gamma = chosen.gamma_ if np.ndim(chosen.gamma_) == 0 else list(np.asarray(chosen.gamma_))
    saved = NARXRegressor(
        LSSVMRegressor(chosen.kernel_, gamma),
        lags=list(model.lags_),
        inputs=choices.input_lags,
        horizon=choices.horizon,
    ).fit(X, y)
    if X is not None:
        names = [name for input_ in treated.inputs for name in input_.features]
        saved.feature_names_in_ = np.array(names, dtype=object)
    return SeriesFit(
        model=model,
        saved=saved,
        choices=choices,
        first_rows=first,
        later=y[first:],
        one_step=one_step,
        naive=y[first - 1 : -1],
        free_run=free_run,
        intervals=intervals,
        remarks=tuple(treated.remarks),
    )


def _search(windows: int, horizon: int, lags: int) -> LSSVMRegressorCV:
    """Return the search of kernel and gamma, by earlier windows that predict later ones where there are enough.

    A series leaves the range of its past, where a kernel of a width returns to the mean: each is also tried beside a
    line, and the line alone.
    """
    kernels = [RBF(width * math.sqrt(2.0 * lags)) for width in _WIDTHS]
    tried = [Linear(), *kernels, *(Linear() + kernel for kernel in kernels)]
    if windows < _FEWEST_WINDOWS:
        return LSSVMRegressorCV(kernels=tried, search="gradient", cv="blocks", reach=horizon - 1)
    from sklearn.model_selection import TimeSeriesSplit

    return LSSVMRegressorCV(kernels=tried, search="gradient", cv=TimeSeriesSplit(_FOLDS, gap=horizon - 1))


def _candidates(choices: SeriesChoices, rows: int) -> tuple[int, ...]:
    """Return the numbers of lags to compare: the one that is given, or those that leave enough windows."""
    if choices.lags is not None:
        return (read_delays(choices.lags, "--lags", 1)[-1],)
    return tuple(lags for lags in _CANDIDATES if 8 * lags + choices.horizon <= rows) or (1,)


def _root_mean_square(errors: Array) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _worse_than(fit: SeriesFit) -> list[str]:
    """Return the line that says that the later rows are predicted better without this model, by their value before."""
    if not fit.later.size:
        return []
    error, naive = (_root_mean_square(values - fit.later) for values in (fit.one_step, fit.naive))
    if error <= naive:
        return []
    return [
        f"NOT GOOD: one step ahead this model is worse than the last value, with an error of {error:.4g} against "
        f"{naive:.4g}; do not predict with it"
    ]


def describe_series(fit: SeriesFit) -> list[str]:
    """Return what is printed of a fit."""
    model, choices = fit.model, fit.choices
    lines = [
        *_worse_than(fit),
        *fit.remarks,
        f"rows: the first {fit.first_rows} train, the last {fit.later.size} judge; in the order of the table",
        *(
            f"lags 1 to {len(result['lags'])}: left-out error {math.sqrt(result['criterion']):.4g}"
            for result in model.lag_results_
        ),
        f"model: {len(model.lags_)} lags of {choices.target}, {choices.input_lags} of each input, "
        f"{model.regressor_.kernel_!r}, chosen by later rows",
    ]
    if fit.later.size:
        error, naive, run = (
            _root_mean_square(values - fit.later) for values in (fit.one_step, fit.naive, fit.free_run)
        )
        lines += [
            f"one step ahead on the last rows: error {error:.4g}; the value before has {naive:.4g}",
            f"free run over all {fit.later.size} of them: error {run:.4g}; their deviation is "
            f"{float(fit.later.std()):.4g}",
            f"intervals: {fit.intervals}",
        ]
    return [*lines, f"certificate: {str(fit.saved.certificate_).partition(chr(10))[0]}"]


def series_report(fit: SeriesFit, source: str) -> str:
    """Return a page with the picture of the later rows, the table of lags and the certificate."""
    title = f"{fit.choices.target} of {source}, a series"
    lags = table(
        ("lags", "left-out error", "no gamma has less than"),
        ("number", "number", "number"),
        [
            (
                str(len(result["lags"])),
                f"{math.sqrt(result['criterion']):.5g}",
                f"{math.sqrt(max(result['lower_bound'], 0.0)):.5g}",
            )
            for result in fit.model.lag_results_
        ],
    )
    drawn = draw_plans(_plans(fit)) if fit.later.size else [Picture("No pictures", "No rows were kept to judge.", "")]
    body = [
        section("How good is it?", *(paragraph(line) for line in describe_series(fit))),
        section("The last rows", *figures(drawn)),
        section("Lags", lags),
        section("Certificate", code(str(fit.model.certificate_))),
    ]
    return page(title, body)


def _plans(fit: SeriesFit) -> list[PicturePlan]:
    def draw() -> Canvas:
        figure, (axes,) = axes_for(None)
        rows = np.arange(fit.first_rows, fit.first_rows + fit.later.size)
        if fit.intervals is not None:
            spare = float(np.ptp(fit.later)) + 1e-300
            ends = np.clip(fit.intervals.ends, fit.later.min() - spare, fit.later.max() + spare)
            axes.fill_between(rows, *ends.T, color="0.9", label=f"{100 * _COVERAGE:g} % of the rows")
        axes.plot(rows, fit.later, "o", color=GREY, markersize=4, label="observed")
        axes.plot(rows, fit.one_step, "-", color=ACCENT, label="one step ahead")
        axes.plot(rows, fit.free_run, "--", color="black", linewidth=1.0, label="free run")
        axes.set(xlabel="row of the table", ylabel=fit.choices.target.replace("$", r"\$"))
        axes.legend(frameon=False, fontsize="small")
        return Canvas(figure)

    caption = "The free run knows no target after the first rows; intervals are cut off where they are infinite."
    return [PicturePlan("Forecasts of the last rows", caption, draw)]


def predict_series(model: NARXRegressor, target: str | None, source: Table, coverage: float | None) -> tuple[str, str]:
    """Return the forecasts of rows that follow the training table, as CSV, and what is to be said of them.

    One step ahead where the table has the target, else a free run.
    """
    X = None
    if model.inputs_:
        names = [str(name) for name in getattr(model, "feature_names_in_", ())]
        if absent := [name for name in names if name not in source.columns]:
            raise DataError(f"{source.source} has no column {absent[0]!r}; it has {named_columns(source.names)}")
        X = np.column_stack([_numbers(source, name) for name in names])
    columns: dict[str, Any] = {}
    observed = target is not None and target in source.columns and not source.missing(target)
    if not observed:
        if coverage is not None:
            raise DataError(
                "--coverage of a series needs the targets of these rows, each of which is seen after its own"
            )
        columns["prediction"] = model.forecast(source.n_rows, X)
        said = f"free run over {source.n_rows} rows, since they have no target"
    else:
        y = _numbers(source, str(target))
        whole, inputs = np.concatenate([model.history_, y]), None if X is None else model._join_inputs(X)
        columns["prediction"] = model.predict_one_step(inputs, whole)[model.history_.size :]
        said = "one step ahead: every row from the targets before it"
        if coverage is not None:
            intervals = model.follow(X, y, coverage)
            columns["lower"], columns["upper"] = intervals.ends.T
            said = f"{said}; {intervals}"
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*([repr(float(value)) for value in values] for values in columns.values()), strict=True))
    return stream.getvalue(), said


def _numbers(source: Table, name: str) -> Array:
    values = source.numbers(name)
    if values is None:
        raise DataError(f"the column {name!r} of {source.source} has cells that are no numbers; correct them")
    return np.asarray(values, dtype=np.float64)
