r"""Certificates: reports of recomputed residuals, attached to every fit and every declared solve.

A report does not depend on models: ingredients provide the rows, it prints them.

A row has a residual, the scale it is measured against, and a result. It passes when

.. math:: |\text{value}| \le \text{tolerance} \times \text{scale},

both recomputed from data and solution. Tolerances follow LAPACK: a modest multiple of the unit roundoff times the
dimension, against a scale built from norms of the quantities that were added up, so that the result changes neither
when y is multiplied by 1e12 nor when it is divided by it.

The accuracy row bounds the answer: the distance of the fitted values from the exact optimum. With sample weights v,
:math:`\|z\|_v^2 = \sum_i v_i z_i^2`, fitted values f as ``predict`` returns them and :math:`f^\star` the fitted values
of the exact optimum,

.. math::

    \text{accuracy} \ge \frac{\|f - f^\star\|_v}{\sqrt{\sum_i v_i}}, \qquad
    \text{spread} = \frac{\|y - \bar y_v\|_v}{\sqrt{\sum_i v_i}}, \qquad
    \text{accuracy} \le \max(\text{tolerance} \cdot \text{spread},\ n\,\epsilon \max|y|) .

Both are in units of y. The spread leaves the mean of y out, so an offset makes no certificate easier to hold; the
second term is what rounding y itself to double precision may change. With several outputs, each has its own bound and
its own spread, and every one of them must hold; the largest bound is stated first.

Where the answer is bounded by duality, the squared errors make the objective 1-strongly convex
in the fitted values, so with a primal feasible point of value P and a dual feasible one of value Q

.. math:: \tfrac12 \|f - f^\star\|^2 \le P - Q .

P - Q is never formed as a difference: for every machine here it is a sum of terms that cannot be negative, and what
rounding may have added to each of them is counted. What ``predict`` returns may differ slightly from the feasible
point, and that distance is measured and added.

The permitted error of an answer is an absolute number in the units of the user's y. ``tol`` of an estimator is a share
of the spread of y, which only its user knows: below, a machine may be given y less constants, some of the rows, other
weights, or the products by which a standard error is computed, and each of these has a different spread. So the share
is turned into an absolute error once, where the user's y is,

.. math:: r = \max(\text{share} \cdot \text{spread of } y,\ n\,\epsilon \max|y|) ,

and whoever bounds, refines or iterates receives r, the ``largest_radius``. Share and spread are kept with it for the
row that states them.
"""

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from substrate.errors import user_level
from substrate.numbers import Array, relative_rounding, root_mean_square

__all__ = ["NO_BOUND", "PROVED", "WIDER", "Accuracy", "Certificate", "Row", "warn_unless_holds", "worst_rows"]


def roundoff(dimension: int, factor: float = 30.0) -> float:
    """Return LAPACK's test threshold: ``factor * dimension * eps`` (30 is the threshold of the LAPACK test suite)."""
    return relative_rounding(factor * max(dimension, 1))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a certificate.

    Parameters
    ----------
    name
        What is checked, in a few words.
    value
        The residual, in the units of ``scale``. An unknown residual is infinity, so it can never pass.
    scale
        What the residual is compared with. Zero is allowed: then only an exact zero passes.
    tolerance
        The largest accepted ``value / scale``.
    formula
        How the value was computed, in the letters of the papers.
    """

    name: str
    value: float
    scale: float
    tolerance: float
    formula: str

    @property
    def relative(self) -> float:
        """``value / scale``, with 0/0 = 0 and anything unknown infinite."""
        return ratio_of(self.value, self.scale)

    @property
    def passes(self) -> bool:
        """Return whether the residual is small enough; an unknown residual never is."""
        return math.isfinite(self.relative) and self.relative <= self.tolerance


def ratio_of(value: float, scale: float) -> float:
    """Return the size of a value as a multiple of a scale: zero for 0/0, infinity for anything unknown."""
    if math.isnan(value) or math.isnan(scale) or math.isinf(scale):
        return math.inf
    if value == 0.0:
        return 0.0
    return abs(value) / scale if scale > 0.0 else math.inf


#: Share of the spread of y within which closed forms, active sets, paths and polished points must be.
ACCURATE = 1e-6


def unpolished_tolerance(tolerance: float) -> float:
    """Return the tolerance of a conic solver's point: the root, since its duality gap is the square of its error."""
    return max(math.sqrt(tolerance), tolerance)


#: The same for a conic solver's own point.
UNPOLISHED = unpolished_tolerance(ACCURATE)


@dataclass(frozen=True, slots=True)
class Accuracy(Row):
    """A row named ``"accuracy"``: ``value`` bounds the distance of the fitted values from the exact optimum.

    It is in units of y, whose spread is ``spread``; ``scale`` is the spread, or the number that makes the tolerance as
    large as the rounding of y if that is larger. ``about`` names what is bounded. with several outputs, ``outputs``
    holds the row of each: ``value``, ``scale`` and ``spread`` then belong to the output with the largest bound, in its
    own units, and the row passes if the rows of all outputs pass.
    """

    spread: float = 0.0
    about: str = "fitted values"
    outputs: "tuple[Accuracy, ...]" = ()

    @property
    def each(self) -> "tuple[Accuracy, ...]":
        """The row of every output; this one where it is the only one."""
        return self.outputs or (self,)

    @property
    def relative(self) -> float:
        """``value / scale``, the largest of all outputs."""
        if not self.outputs:
            return ratio_of(self.value, self.scale)
        return max(output.relative for output in self.outputs)

    def plain(self, name: str) -> Row:
        """Return the row of the output that is nearest to failing, under another name."""
        worst = max(self.each, key=lambda output: output.relative)
        return Row(name=name, value=worst.value, scale=worst.scale, tolerance=worst.tolerance, formula=worst.formula)

    def __str__(self) -> str:
        several = f", the largest of {len(self.outputs)} outputs" if self.outputs else ""
        unit = "f" if self.about.startswith(VALUES) else "y"
        return (
            f"{self.about} within {self.value:.1e} of the exact optimum (spread of {unit} {self.spread:.3g}){several}"
        )


#: A row that bounds an answer, in a certificate or a proof.
_Answer = TypeVar("_Answer", bound=Accuracy)

#: What a bound is for where there are no targets: its unit is the spread of f.
VALUES = "values of f"


def accuracy_of_outputs(rows: Sequence[_Answer]) -> _Answer:
    """Return one row for several outputs: the largest bound, in its own units, and the row of every output."""
    if len(rows) == 1:
        return rows[0]
    each: tuple[Any, ...] = tuple(output for row in rows for output in row.each)
    largest: _Answer = max(each, key=lambda row: row.value)
    return replace(largest, formula=f"{largest.formula}, largest of {len(each)} outputs", outputs=each)


def worst_rows(outputs: list[tuple[Row, ...]]) -> tuple[Row, ...]:
    """Return, of several outputs' rows of the same name, the one that comes closest to failing; the accuracy of every
    output.

    If one output has no bound on its answer, the whole has none.
    """
    if len(outputs) == 1:
        return outputs[0]
    answers = [row for rows in outputs for row in rows if isinstance(row, Accuracy)]
    named: dict[str, list[Row]] = {}
    for rows in outputs:
        for row in rows:
            if not isinstance(row, Accuracy):
                named.setdefault(row.name, []).append(row)
    bounded = (accuracy_of_outputs(answers),) if outputs and len(answers) == len(outputs) else ()
    return bounded + tuple(
        replace(
            max(rows, key=lambda row: row.relative / row.tolerance),
            formula=f"{rows[0].formula}, worst of {len(rows)} outputs" if len(rows) > 1 else rows[0].formula,
        )
        for rows in named.values()
    )


def spread_of(y: Array, weights: Array) -> tuple[float, float]:
    """Return the weighted standard deviation of y about its mean, and n eps max|y|."""
    unit = float(np.abs(y).max(initial=0.0))
    if unit == 0.0:
        return 0.0, 0.0
    shares = weights / weights.max()
    scaled = y / unit
    mean = min(max(float(shares @ scaled) / float(shares.sum()), float(scaled.min())), float(scaled.max()))
    return unit * root_mean_square(scaled - mean, shares), relative_rounding(y.size) * unit


#: What a bound is for where a parameter of the model, its cutoff, leaves directions of the kernel out.
WITH_CUTOFF = "of the machine with its cutoff"


def on_basis(rank: int, n: int) -> str:
    """Return the words for a machine on the basis vectors that double precision can tell apart, where some are not."""
    return "" if rank == n else f" of the machine on {rank} of {n} basis vectors"


def power_of_two(size: float) -> float:
    """Return the power of two above a size, by which numbers are divided without rounding; 1 for zero."""
    if size == 0.0 or not math.isfinite(size):
        return 1.0
    return math.ldexp(1.0, max(min(math.frexp(size)[1], 1000), -1000))


def gap_row(primal: Sequence[float], dual: Sequence[float], tolerance: float, data: float = 0.0) -> Row:
    """Return the row of primal minus dual objective, each given by its terms, against the sum of the terms' sizes.

    Measured against the terms, not against the difference: an optimum near zero between large terms is as well
    solved as any other. ``data`` is what a trivial point costs; a solver's noise is small against that even where every
    term of the optimum vanishes.
    """
    scale = float(sum(abs(term) for term in (*primal, *dual))) + data
    return Row(
        name="duality gap",
        value=float(sum(primal)) - float(sum(dual)),
        scale=scale,
        tolerance=tolerance,
        formula="primal - dual objective",
    )


#: Share of its target to which an iteration fits a constant.
_CONSTANT = 1e-6


class Tolerance(NamedTuple):
    """The permitted error of one output, root mean square by the weights of its rows, in the units of y.

    Parameters
    ----------
    share
        What the user asked for, relative to the spread.
    spread
        The standard deviation of the user's y, by the weights of the rows.
    rounding
        What rounding y itself to double precision may change.
    """

    share: float
    spread: float
    rounding: float

    @classmethod
    def of(cls, y: Array, weights: Array, share: float = ACCURATE) -> "Tolerance":
        """Return the permitted error for the targets of a user and the weights of their rows."""
        return cls(share, *spread_of(y, weights))

    @classmethod
    def of_page(cls, y: Array, weights: Array, share: float) -> "Tolerance":
        """Return the same for an iteration, which fits a constant target to a millionth of its size only."""
        spread, rounding = spread_of(y, weights)
        if spread <= rounding:
            rounding = max(rounding, _CONSTANT * float(np.abs(y).max(initial=0.0)))
        return cls(share, spread, rounding)

    @classmethod
    def of_sums(
        cls, count: int, mass: float, shift: float, squares: float, largest: float, unit: float, share: float
    ) -> "Tolerance":
        r"""Return the permitted error if the rows of y are not kept, from sums about any centre of them.

        With the sum s of :math:`v_i z_i` and q of :math:`v_i z_i^2`, :math:`z = (y - c) / \text{unit}`, the spread is
        the root of :math:`q/m - (s/m)^2`, m the sum of all weights. Where the weighted mean is far from c the
        difference cancels, and may be rounding alone; so it is lowered by what rounding may have added,

        .. math:: \text{spread} \ge \text{unit} \sqrt{q/m - (s/m)^2 - 3 n\,\epsilon\, q/m} .

        Parameters
        ----------
        count, mass
            The number of rows, and the sum of their weights.
        shift, squares
            s and q.
        largest
            The largest size of y, in its own units.
        """
        middle, mean_square = shift / mass, squares / mass
        # each sum of n terms, of products of three numbers, and (s/m)^2 is at most q/m
        spare = relative_rounding(3.0 * count) * mean_square
        spread = unit * math.sqrt(max(mean_square - middle**2 - spare, 0.0))
        return cls(share, spread, relative_rounding(count) * largest)

    @property
    def scale(self) -> float:
        """The spread, or the number whose share is as large as the rounding of y if that is larger."""
        return max(self.spread, min(self.rounding / self.share, sys.float_info.max))

    @property
    def largest_radius(self) -> float:
        """The largest permitted distance of the fitted values from the exact optimum."""
        return self.share * self.scale

    def row(self, radius: float, formula: str, about: str = "fitted values") -> Accuracy:
        """Return the certificate row of an answer that is within ``radius`` of the exact one."""
        radius = radius if math.isfinite(radius) else math.inf  # an unknown number is no bound
        return Accuracy("accuracy", radius, self.scale, self.share, formula, self.spread, about)


#: The fact on the record where the answer cannot be bounded, with the reason.
NO_BOUND = "no bound on the answer"

#: The fact on the record of a search without a machine of ours: what is proved of its result.
PROVED = "proved"

#: The fact on the record where a search should be given a wider range or a wider gap, and which.
WIDER = "to widen"

_HEADINGS = ("check", "residual", "scale", "relative", "tolerance", "pass")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A frozen report: rows that pass or fail, and a record of how the solution was obtained.

    ``print(certificate)`` shows the table, ``certificate.holds`` is the result, ``certificate["name"]`` is a row.
    ``record`` lists plain facts (kernel, Gram alterations, solver attempts, refinements) as pairs.
    """

    title: str
    rows: tuple[Row, ...]
    record: tuple[tuple[str, str], ...] = field(default=())

    @property
    def holds(self) -> bool:
        """True when there is at least one row and every row passes, including the accuracy row."""
        return bool(self.rows) and all(row.passes for row in self.rows)

    @property
    def answer(self) -> Accuracy | None:
        """The row that bounds the answer; None without a bound."""
        return next((row for row in self.rows if isinstance(row, Accuracy)), None)

    @property
    def accuracy(self) -> float:
        """Return how far the fitted values can be from the exact optimum, root mean square, in units of y.

        Of several outputs the largest number; :attr:`accuracies` has all of them.
        """
        return math.inf if self.answer is None else self.answer.value

    @property
    def spread(self) -> float:
        """The standard deviation of y about its mean, with the weights of the fit.

        With several outputs, the spread of the output in :attr:`accuracy`; :attr:`spreads` has all of them. NaN if no
        row is in units of y.
        """
        if self.answer is not None:
            return self.answer.spread
        return next((row.spread for row in self.rows if isinstance(row, Accuracy)), math.nan)

    @property
    def accuracies(self) -> tuple[float, ...]:
        """The accuracy of every output."""
        return (math.inf,) if self.answer is None else tuple(accuracy.value for accuracy in self.answer.each)

    @property
    def spreads(self) -> tuple[float, ...]:
        """The spread of every output."""
        return (self.spread,) if self.answer is None else tuple(accuracy.spread for accuracy in self.answer.each)

    @property
    def promise(self) -> str:
        """Return what the certificate states about the answer, in words."""
        if self.answer is not None:
            return str(self.answer)
        proved = next((fact for name, fact in self.record if name == PROVED), None)
        if proved is not None:
            return proved
        reason = next((fact for name, fact in self.record if name == NO_BOUND), None)
        return NO_BOUND if reason is None else f"{NO_BOUND}: {reason}"

    @property
    def failures(self) -> tuple[Row, ...]:
        """The rows that do not pass."""
        return tuple(row for row in self.rows if not row.passes)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no row named {name!r}; this certificate has {[row.name for row in self.rows]}")

    def extended(self, *rows: Row, record: tuple[tuple[str, str], ...] = ()) -> "Certificate":
        """Return the same certificate with further rows and facts at its end."""
        return Certificate(self.title, (*self.rows, *rows), (*self.record, *record))

    def __str__(self) -> str:
        printed = [
            replace(output, name=f"{row.name}, output {k}") if isinstance(row, Accuracy) and row.outputs else output
            for row in self.rows
            for k, output in enumerate(row.each if isinstance(row, Accuracy) else (row,), start=1)
        ]
        sizes = [(row.name, f"{row.value:.2e}", f"{row.scale:.2e}", f"{row.relative:.1e}") for row in printed]
        verdicts = [(f"{row.tolerance:.1e}", "yes" if row.passes else "NO") for row in printed]
        table = [_HEADINGS, *((*size, *verdict) for size, verdict in zip(sizes, verdicts, strict=True))]
        widths = [max(len(line[j]) for line in table) for j in range(len(_HEADINGS))]
        formulas = ["formula", *(row.formula for row in printed)]
        lines = [f"{self.title}: {'holds' if self.holds else 'DOES NOT HOLD'}; {self.promise}"]
        for cells, formula in zip(table, formulas, strict=True):
            aligned = [cells[0].ljust(widths[0])]
            aligned += [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
            lines.append("  ".join([*aligned, formula]).rstrip())
        lines.insert(2, "-" * max(len(line) for line in lines))
        lines += [f"{name}: {fact}" for name, fact in self.record]
        return "\n".join(lines)


def warn_unless_holds(certificate: Certificate, reason: str = "") -> None:
    """Warn of a fit whose certificate fails; ``reason`` is its solver's report, with advice.

    No other part of a fit speaks of its certificate: what a solver did not reach may still hold.
    """
    if certificate.holds:
        return
    from sklearn.exceptions import ConvergenceWarning

    failed = ", ".join(row.name for row in certificate.failures)
    cures = "; ".join(fact for name, fact in certificate.record if name in ("rounding", WIDER))
    told = reason or _describe_rejections(certificate) or cures or "print certificate_ to see why"
    warnings.warn(
        f"{certificate.title}: the certificate does not hold ({failed}); {told}",
        ConvergenceWarning,
        stacklevel=user_level(),
    )


def _describe_rejections(certificate: Certificate) -> str:
    """Describe solvers without an accepted point; empty if a point was accepted or no solver was called."""
    attempts = [fact for name, fact in certificate.record if name == "solver" and "rejected" in fact]
    if not attempts or any("accepted" in fact for fact in attempts):
        return ""
    return "no solver met the certificate's tolerances, and the best point is kept: " + "; ".join(attempts)
