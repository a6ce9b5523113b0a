"""A study: one published table or figure, how it is measured again, and by which rule it is judged.

Hyper-parameters that a paper chose are chosen by cross-validation on the training rows alone. Machines of this package
have the lower bound that their certificate states (:class:`~problems.LSSVMRegressorCV`); support vector machines of
scikit-learn are searched on a grid. Where double precision does not determine the machine that is best, or how much
better another may be, the best one is taken of a range of gamma that ends before: of few rows with hardly any noise,
as pruning leaves them, the criterion falls with every decade. Figures show numbers with their spread beside the printed
ones, or curves over a grid, distinguished by shape and line style as well as by shade.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

from problems.displays.canvas import ACCENT, GREY, LEGEND, distinct
from problems.estimators.chosen.selection import LSSVMClassifierCV, LSSVMRegressorCV
from problems.reproductions.measured import Claim, Measured, Printed, Round, collect, verdict
from substrate.arrays import Array
from substrate.errors import CertificateError
from substrate.kernels import RBF
from substrate.progress import Progress

__all__ = [
    "Outcome",
    "Spread",
    "Study",
    "decades_below",
    "draw_curves",
    "draw_spread",
    "first_certified",
    "folds",
    "legend_above",
    "logarithmic",
    "require_certificate",
    "standardise",
    "tuned_classifier",
    "tuned_peer",
    "tuned_regressor",
]

Spread = Literal["quartiles", "deviation"]
_Model = TypeVar("_Model")
#: By how much the range of gamma is extended where the best one may be beyond it.
_WIDER = 10.0
#: By how much it is shortened where rounding hides the best one, or its bound, and how often.
_SHORTER, _MOST_SHORTENED = 0.1, 8


class Outcome(NamedTuple):
    """The result of a study. Claims and verdict follow from the numbers; the rest states how they were obtained."""

    study: str
    paper: str
    what: str
    settings: str
    spread: Spread
    quick: bool
    cpu_seconds: float
    published: Mapping[str, Printed]
    measured: Measured
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Return one sentence, from the claims."""
        return verdict(self.claims)


def _nothing(measured: Measured) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Study:
    """One published table or figure.

    ``one`` measures a seed, ``judge`` makes the claims from the numbers of all, ``draw`` a figure, and ``notes`` states
    what else the numbers show. ``settings`` states where hyper-parameters come from. ``published`` has the printed
    figure of a number by its name; ``seeds`` and ``quick_seeds`` are the default numbers of seeds.
    """

    name: str
    paper: str
    what: str
    settings: str
    published: Mapping[str, Printed]
    seeds: int
    quick_seeds: int
    run_seed: Callable[[int, bool], Round]
    judge: Callable[[Measured], tuple[Claim, ...]]
    draw: Callable[[Measured], Any]
    notes: Callable[[Measured], tuple[str, ...]] = _nothing
    spread: Spread = "quartiles"

    def count(self, seeds: int | None, quick: bool) -> int:
        """Return the number of seeds of a run."""
        return seeds if seeds is not None else self.quick_seeds if quick else self.seeds

    def run(self, seeds: int | None, quick: bool, progress: Progress) -> Outcome:
        """Measure every seed, then judge."""
        start, rounds = time.process_time(), []
        count = self.count(seeds, quick)
        for seed in range(count):
            progress.step(f"{self.name} {seed + 1}/{count}")
            rounds.append(self.run_seed(seed, quick))
        return self.conclude(collect(rounds), quick, time.process_time() - start)

    def conclude(self, measured: Measured, quick: bool, cpu_seconds: float) -> Outcome:
        """Return the outcome that follows from these numbers."""
        claims, notes = self.judge(measured), self.notes(measured)
        return Outcome(
            study=self.name,
            paper=self.paper,
            what=self.what,
            settings=self.settings,
            spread=self.spread,
            quick=quick,
            cpu_seconds=cpu_seconds,
            published=self.published,
            measured=measured,
            claims=claims,
            notes=notes,
        )


def require_certificate(model: _Model) -> _Model:
    """Return a fitted model whose certificate holds; a study does not continue with another."""
    certificate = model.certificate_  # type: ignore[attr-defined]
    if not certificate.holds:
        failed = ", ".join(row.name for row in certificate.failures)
        raise CertificateError(f"the certificate of {type(model).__name__} does not hold: {failed}")
    return model


def folds(seed: int, count: int = 10) -> KFold:
    """Return folds of shuffled rows, different for every seed."""
    return KFold(count, shuffle=True, random_state=seed)


def tuned_regressor(X: Array, y: Array, sigmas: Sequence[float], splits: Any) -> LSSVMRegressorCV:
    """Return an LS-SVM whose gamma is the best of all, and whose width is the best of a list, by folds."""
    model = LSSVMRegressorCV(kernels=[RBF(sigma) for sigma in sigmas], cv=splits)
    return first_certified(_search_in_ranges(model, X, y))


def tuned_classifier(X: Array, y: Any, sigmas: Sequence[float], splits: Any) -> LSSVMClassifierCV:
    """Return the same for classes."""
    model = LSSVMClassifierCV(kernels=[RBF(sigma) for sigma in sigmas], cv=splits)
    return first_certified(_search_in_ranges(model, X, y))


def first_certified(fits: Iterable[_Model]) -> _Model:
    """Return the first of some fits whose certificate holds; they are made one by one, until there is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # those that are passed over
        for model in fits:
            if model.certificate_.holds:  # type: ignore[attr-defined]
                break
    return require_certificate(model)


def decades_below(gamma: float) -> Iterator[float]:
    """Return a gamma and smaller ones, a decade each, for machines that double precision may not determine."""
    return (gamma * _SHORTER**number for number in range(1 + _MOST_SHORTENED))


def _search_in_ranges(model: _Model, X: Array, y: Any) -> Iterator[_Model]:
    """Return fits by their own range of gamma, by a wider one where the criterion may fall beyond it, and by shorter
    ones for where rounding hides the best machine, or its bound.
    """
    search: Any = model
    search.fit(X, y)
    yield model
    low, high = (float(end) for end in search.gamma_range_)
    if [row.name for row in search.certificate_.failures] == ["range of gamma"]:
        search.set_params(gamma_range=(low, _WIDER * high)).fit(X, y)
        yield model
    low = min(float(ends[0]) for ends in search.cv_results_["gamma_range"])
    for end in decades_below(_SHORTER * high):
        search.set_params(gamma_range=(low, end)).fit(X, y)
        yield model


def tuned_peer(model: Any, grid: Mapping[str, Sequence[float]], X: Array, y: Any, splits: Any) -> Any:
    """Return a machine of scikit-learn with the best parameters of a grid: by squared error, or for classes by
    accuracy.
    """
    scoring = "accuracy" if is_classifier(model) else "neg_mean_squared_error"
    search = GridSearchCV(model, dict(grid), cv=splits, scoring=scoring)
    return search.fit(X, y).best_estimator_


def standardise(X: Array, *further: Array) -> tuple[Array, ...]:
    """Return columns to mean zero and variance one, by the first rows given; the others are scaled alike."""
    centre, scale = X.mean(axis=0), X.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    return tuple((array - centre) / scale for array in (X, *further))


def draw_spread(
    axes: Any,
    measured: Measured,
    names: Sequence[str],
    published: Mapping[str, Printed],
    label: str,
    shown: Sequence[str] | None = None,
) -> None:
    """Draw one line per number: a dot per seed, a bar from quartile to quartile, its median, the printed figure."""
    places = np.arange(len(names))[::-1]
    printed = [(place, published[name].value) for place, name in zip(places, names, strict=True) if name in published]
    printed_values = [(value, place) for place, value in printed if value is not None]
    for place, name in zip(places, names, strict=True):
        values, low_high = np.array(measured.of[name]), measured.quartiles(name)
        shift = 0.22 * np.linspace(-1.0, 1.0, values.size) if values.size > 1 else np.zeros(1)
        axes.plot(values, place + shift, ".", color=GREY, markersize=5, label="a seed" if place == 0 else None)
        bar = "quartiles" if place == 0 else None
        axes.plot(low_high, (place, place), "-", color="black", linewidth=2.2, label=bar, solid_capstyle="butt")
        middle = "median" if place == 0 else None
        axes.plot(measured.median(name), place, "|", color="black", markersize=14, markeredgewidth=2.2, label=middle)
    if printed_values:
        style = {"color": ACCENT, "markersize": 9, "markerfacecolor": "none", "markeredgewidth": 1.6}
        axes.plot(*zip(*printed_values, strict=True), "D", label="printed", **style)
    axes.set_yticks(places, names if shown is None else shown)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel(label)


def legend_above(figure: Any, axes: Any) -> None:
    """Draw one legend for all panels, with the marks of one of them, where it covers nothing."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4, **LEGEND)


def logarithmic(axes: Any, which: str) -> None:
    """Make an axis, "x" or "y", logarithmic: plain numbers at 1, 2 and 5, or powers of ten where there are many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(**{f"{which}scale": "log"})
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 500.0 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def draw_curves(axes: Any, measured: Measured, names: Sequence[str], x_label: str, y_label: str) -> None:
    """Draw medians as marked lines, quartiles as thin lines of the same shade."""
    for name, style in zip(names, distinct(len(names)), strict=True):
        curve = measured.curves[name]
        axes.plot(curve.x, curve.middle, label=name, **style)
        for edge in (curve.low, curve.high):
            axes.plot(curve.x, edge, color=style["color"], linestyle=style["linestyle"], linewidth=0.6)
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.legend(**LEGEND)
