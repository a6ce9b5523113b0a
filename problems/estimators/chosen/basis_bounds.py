r"""The lower bound of a search on a reduced basis, minus the effects of rounding and decomposition.

The criterion is that of the machine that is fitted, on the directions of the basis that were kept. With e the norm of
the error of the rows' errors and :math:`l_i = l_0 + l_1 h_{ii}^{1/2}` that of a leverage
(:mod:`substrate.reduced.criteria`), its root r moves from
:math:`\lambda` on to at least :math:`\phi r - w` (:class:`substrate.least_squares.criteria.Samples`):

- leave-one-out, with :math:`s_i = 1 - h_{ii}`, s the smallest of them and :math:`l = l_0 + l_1`,
  :math:`|r^\star_i - r_i| \le (|e^\star_i - e_i| + l_i |r_i|)/(s_i - l_i)`, so :math:`\phi = 1` and

  .. math:: w = \frac{e}{\sqrt N (s - l)} + \frac{1}{1 - l/s} \bigg( l_0 \Big( \frac1N \sum_i r_i^2/s_i^2 \Big)^{1/2}
            + l_1 \Big( \frac1N \sum_i h_{ii} r_i^2/s_i^2 \Big)^{1/2} \bigg) ,

- generalised cross-validation: the same with the mean leverage in place of each of them;
- folds: :math:`\phi = 1`, w the root of the mean square of the errors of the folds;
- the evidence: :math:`w = 0`, :math:`\phi` the root of one minus the relative error.

Errors are those of a whole cell of lambdas, and cells are narrow where they matter. Ranges end by the rule of all
searches (:mod:`substrate.search.range_end`).
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from problems.estimators.reduced.prepared import PreparedRows
from substrate.arrays import Array
from substrate.least_squares.criteria import Criterion, LeaveOneOut, Samples
from substrate.least_squares.evidence import Evidence, GeneralizedCrossValidation
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.validation import CriterionSum
from substrate.namespaces import to_numpy
from substrate.reduced.criteria import CriterionRadius, Lift, ReducedFold, evidence_error, mass_rounding, sizes_of_rows
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.search.gamma_result import GammaSearch
from substrate.search.gamma_search import lambda_range, search_gamma, search_widest

__all__ = ["bounded_search"]

#: Cells of lambda a decade, from wide to narrow.
_CELLS = (1.0 / 3.0, 1.0, 4.0)
#: Share of the gap up to which an error does not matter.
_MATTERS = 0.05
#: Factor of what is known at points of a search for what is between two of them, as for the errors of rows.
_BETWEEN = 2.0


def bounded_search(
    criterion: Criterion | CriterionSum,
    prepared: PreparedRows,
    spectrum: ReducedSpectrum,
    gamma_range: Any,
    gap: float,
    pooled: bool,
) -> GammaSearch:
    """Minimise over a range of gamma, with a lower bound of the criterion itself."""
    criteria = criterion.criteria if isinstance(criterion, CriterionSum) else (criterion,)
    lambdas = lambda_range([criterion_of_fold.spectrum for criterion_of_fold in criteria], gamma_range)
    bounded = _BoundedCriterion(criterion, *_radii_of_folds(criterion, prepared, spectrum), pooled, gap)
    # a criterion by its interface, which is all that a search uses
    search = search_widest if gamma_range is None else search_gamma
    return search(bounded, lambdas, gap)  # type: ignore[arg-type]


def _radii_of_folds(
    criterion: Criterion | CriterionSum, prepared: PreparedRows, spectrum: ReducedSpectrum
) -> tuple[ReducedSpectrum, tuple[CriterionRadius, ...]]:
    """Return the spectrum of all rows, on the host, and the errors of every part of the criterion."""
    rows, K, host = prepared.rows, to_numpy(prepared.K), spectrum.on_host()
    sizes = sizes_of_rows(rows)
    if not isinstance(criterion, CriterionSum):
        return host, (CriterionRadius(host, K, sizes, rows.terms),)
    radii = []
    for criterion_of_fold in criterion.criteria:
        if not isinstance(criterion_of_fold, ReducedFold):
            raise TypeError("a sum of criteria on a reduced basis is one of folds")
        Q = criterion_of_fold.spectrum.rotation  # the fold's scatter is in eigen-coordinates
        radii.append(
            CriterionRadius(
                spectrum=criterion_of_fold.spectrum,
                K_basis=K,
                sizes=sizes,
                terms=rows.terms,
                leverages=Q @ criterion_of_fold.scatter @ Q.T,
                count=criterion_of_fold.count,
            )
        )
    return host, tuple(radii)


@dataclass(frozen=True, slots=True)
class _BoundedCriterion:
    """A criterion with the errors of rounding and decomposition among what is subtracted from its bounds."""

    criterion: Criterion | CriterionSum
    spectrum: ReducedSpectrum
    radii: tuple[CriterionRadius, ...]
    pooled: bool
    gap: float
    _errors: dict[tuple[int, float], tuple[Lift, Array]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """That of the criterion."""
        return self.criterion.size

    @property
    def outputs(self) -> int:
        """That of the criterion."""
        return self.criterion.outputs

    @property
    def lift(self) -> float:
        """That of the criterion."""
        return self.criterion.lift

    @property
    def cone(self) -> int:
        """That of the criterion."""
        return self.criterion.cone

    @property
    def growth(self) -> float:
        """That of the criterion."""
        return self.criterion.growth

    @property
    def unit(self) -> float:
        """That of the criterion."""
        return self.criterion.unit

    @property
    def spread(self) -> Array:
        """That of the criterion."""
        return self.criterion.spread

    def sample(self, t: Array) -> Samples:
        """Evaluate the criterion, and what its errors take from its root.

        Wide cells of lambdas come first, and narrower ones where their errors matter.
        """
        samples, lambdas = self.criterion.sample(t), Regularization.from_log_lambda(t, self.lift).lam
        roots = np.sqrt(samples.values)
        own_errors, shared, errors = np.empty(t.shape), np.empty(t.shape), np.empty((*t.shape, self.outputs))
        spare = self._spare(samples, t)
        is_left: Any = np.ones(t.shape, dtype=bool)
        for cells in _CELLS:
            places = np.floor(cells * np.log10(lambdas)).astype(int)
            for place in np.unique(places[is_left]):
                is_here = is_left & (places == place)
                lift, errors[is_here] = self._errors_from(int(place), cells)
                own_errors[is_here], shared[is_here] = lift.own, lift.shared
            shrink, shifts = self._share_of_root(samples, spare, roots, own_errors, shared, errors)
            spared = np.where(shrink > 0.0, shrink - 1.0 + _MATTERS * self.gap, -1.0)
            is_known: Any = shifts <= spared * np.where(shrink > 0.0, roots, 1.0)
            is_left = ~is_known.all(axis=2)
            if not is_left.any():
                break
        # lambda ascends in an interval, so its first point has the largest errors
        first = np.minimum.accumulate(shrink[:, ::-1, :], axis=1)[:, -1, :]
        inner = np.ones_like(first) if samples.shrink is None else samples.shrink
        taken = shifts if samples.shifts is None else first[:, None, :] * samples.shifts + shifts
        return Samples(samples.values, samples.ceiling, inner * first, taken)

    def _share_of_root(
        self, samples: Samples, spare: Array, roots: Array, own_errors: Array, shared: Array, errors: Array
    ) -> tuple[Array, Array]:
        """Return the share of the root that is left at every point, and what is subtracted from that."""
        if isinstance(self.criterion, CriterionSum):
            return np.ones_like(roots), errors
        if isinstance(self.criterion, Evidence):
            return np.sqrt(np.maximum(1.0 - errors, 0.0)), np.zeros_like(roots)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if samples.levered is None:  # every leverage is their mean, or what is known of each is that of the worst
                averaged = isinstance(self.criterion, GeneralizedCrossValidation)
                mean = np.clip(1.0 - spare, 0.0, 1.0) if averaged else np.ones_like(spare)
                most = own_errors + shared * np.sqrt(mean)
                shift = (most / spare)[:, :, None] * roots
            else:
                most = own_errors + shared
                levered, by_leverage = samples.levered
                shift = _BETWEEN * (own_errors[:, :, None] * levered + shared[:, :, None] * by_leverage)
            shifts = (errors + spare[:, :, None] * shift) / np.maximum(spare - most, 0.0)[:, :, None]
        lost = ~np.isfinite(shifts)
        return np.where(lost, 0.0, 1.0), np.where(lost, 0.0, shifts)

    def _errors_from(self, place: int, cells: float) -> tuple[Lift, Array]:
        """Return the errors of a leverage and of the root in a cell of lambdas; of the evidence the relative error."""
        key = (place, cells)
        if key not in self._errors:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                self._errors[key] = self._errors_at(10.0 ** (place / cells), 10.0 ** ((place + 1) / cells))
        return self._errors[key]

    def _errors_at(self, lam: float, upper: float) -> tuple[Lift, Array]:
        criterion, n = self.criterion, self.spectrum.n
        if isinstance(criterion, CriterionSum):
            total = np.zeros(criterion.outputs)
            for radius, criterion_of_fold, weight in zip(
                self.radii, criterion.criteria, criterion.weights, strict=True
            ):
                _, errors = radius.errors(lam, upper)
                total += weight * np.square(self._pool(errors / math.sqrt(criterion_of_fold.mass)))  # type: ignore[attr-defined]
            return Lift(0.0, 0.0), np.asarray(np.sqrt(total))
        lift, errors = self.radii[0].errors(lam, upper)
        if isinstance(criterion, Evidence):
            mean = float(lift.mean(np.array(self.spectrum.degrees_of_freedom(lam) / n)))
            errors_found = evidence_error(self.spectrum, lam, mean, errors, self.pooled)
            return lift, np.asarray(np.where(np.isnan(errors_found), math.inf, errors_found))
        if isinstance(criterion, GeneralizedCrossValidation) and isinstance(criterion.spectrum, ReducedSpectrum):
            lift = Lift(lift.own + mass_rounding(criterion.spectrum, lam, self.radii[0].terms), lift.shared)
        return lift, self._pool(errors / math.sqrt(n))

    def _pool(self, errors: Array) -> Array:
        return np.sqrt(np.mean(np.square(errors), keepdims=True)) if self.pooled else errors

    def _spare(self, samples: Samples, t: Array) -> Array:
        """Return the smallest 1 - h_ii at every point; of no use for folds and the evidence."""
        if samples.spare is not None:
            return samples.spare
        if isinstance(self.criterion, GeneralizedCrossValidation):
            return self.criterion.spare(t)
        if isinstance(self.criterion, LeaveOneOut):
            basis, g = to_numpy(self.criterion.spectrum.basis), to_numpy(self.criterion._inverses(t))
            least = Regularization.from_log_lambda(t.ravel(), self.lift).lam * (np.square(basis) @ g).min(axis=0)
            return np.asarray(least).reshape(t.shape)
        return np.ones(t.shape)
