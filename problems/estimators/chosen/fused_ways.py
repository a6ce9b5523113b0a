"""The hyper-parameters zeta and rho, fused by exact paths; for gamma see ``problems.LSSVMRegressorCV``."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from problems.estimators.chosen.fused import Choice, Final, FusedEstimator, Round
from problems.estimators.full.l1_fit import Solving, SparseAnswers, fit_sparse, sparse_accuracy
from problems.estimators.full.variation_fit import Variation, VariationAnswers, VariationFit, smallest_rho, with_answer
from problems.estimators.shared.additive import kernel_matrices
from problems.estimators.shared.machine_rows import each_machine, in_columns
from substrate.arrays import Array, positive
from substrate.closed_form.component_coordinates import ComponentCoordinates
from substrate.closed_form.l1_accuracy import SparseMachine
from substrate.closed_form.l1_active_set import correlation_noise
from substrate.closed_form.maximal_variation import VariationSolution, right_divided, sides_of
from substrate.closed_form.saddle_certificate import worst_rows
from substrate.closed_form.variation_accuracy import VariationWitness, refined_witness, solution_rows
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.paths.gamma_search import PRICE
from substrate.paths.homotopies import variation_path
from substrate.paths.knots import Path
from substrate.paths.tracks import L1Fold, ReadOff, VariationFold, read_off

__all__ = ["OverRho", "OverZeta"]

#: Factor of a default end of the range of zeta where double precision cannot determine the machine there.
_RETREAT = 10.0


def _gram(kernel: Kernel, X: Any) -> Gram:
    gram = Gram.of(kernel, X)
    if not kernel.trusted:
        gram.check_definite()
    return gram


def _kernel_rows(kernel: Kernel, one: Round) -> Array:
    """Kernel values of validation and training rows."""
    rows = np.empty((one.Y_check.shape[0], one.Y.shape[0]))
    kernel.fill(one.X_check, None if kernel.pairwise else one.X, rows)
    return rows


@dataclass(eq=False, repr=False, kw_only=True)
class OverZeta(SparseAnswers, FusedEstimator):
    """The L1 substrate: (16) of [Pelckmans2005]_ along its exact path.

    No path reaches zeta = 0 in double precision on a smooth kernel. Unless ``zeta_min`` is given the range ends at a
    ten-thousandth of the zeta at which only the bias is left, or where rounding hides the bound or the machine; the
    bound is over that range only.
    """

    _page, _chooses = "fused_l1_substrate", "zeta"
    _solvers: ClassVar[tuple[str, ...]] = ()
    gap: float = 1e-2
    zeta_min: float | None = None

    def _rules(self) -> float:
        if self.zeta_min is not None and self.zeta_min != 0.0:
            positive(self.zeta_min, "zeta_min")
        return super()._rules()

    def _choose(self, kernel: Kernel, rounds: tuple[Round, ...]) -> Choice:
        folds, machines, noise = [], [], 0.0
        for one in rounds:
            gram, below = _gram(kernel, one.X), _kernel_rows(kernel, one)
            for train, check in one.machines(self._labels):
                if not check.rows.size:
                    continue
                y = train.y
                center = np.clip(y.mean(), y.min(), y.max())  # the bias absorbs it; otherwise it would hide small zetas
                rows = np.ascontiguousarray(below[np.ix_(check.rows, train.rows)])
                K = np.array(gram.block(train.rows).matrix)
                fold = L1Fold.of(K, y - center, rows, check.y - center, self.zeta_min)
                folds.append(fold)
                machines.append((train.points(one.X, kernel.pairwise), K, y - center, fold.path))
                noise = max(noise, correlation_noise(K, y))
        tracks, paths = [fold.track for fold in folds], [fold.path for fold in folds]
        if all(path.values[-1] == 0.0 for path in paths):  # nothing to fit: the machine is its bias at every zeta
            read = read_off(tracks, paths)
            return _chosen(kernel, "zeta", replace(read, value=noise), folds)
        if self.zeta_min is not None:
            return _chosen(kernel, "zeta", read_off(tracks, paths), folds)
        read = first = read_off(tracks, paths, float(self.gap))
        how = Solving("auto", self._tolerance())
        while not all(_is_known(kernel, *machine, read.value, how) for machine in machines):
            if _RETREAT * read.value >= first.values[-1]:  # no end of the range would help
                return _chosen(kernel, "zeta", first, folds)
            read = read_off(tracks, paths, float(self.gap), _RETREAT * read.value)
            if read.error > (1.0 + max(float(self.gap), PRICE)) * first.error:  # too high a cost for a certificate
                return _chosen(kernel, "zeta", first, folds)
        return _chosen(kernel, "zeta", read, folds)

    def _final(self, kernel: Kernel, X: Any, Y: Array, value: float) -> Final:
        gram, zeta = _gram(kernel, X), max(value, float(np.finfo(np.float64).tiny))
        machines, fits, how = list(each_machine(Y, self._labels)), [], Solving("auto", self._tolerance())
        for one in machines:
            part = gram if one.whole else gram.block(one.rows)
            fits.append(fit_sparse(kernel, one.points(X, kernel.pairwise), part, one.y, zeta, how, labels=False))
        a = in_columns(machines, [fit.coefficients for fit in fits], Y.shape[0])
        bias, facts = np.array([fit.bias for fit in fits]), dict.fromkeys(fact for fit in fits for fact in fit.facts)
        kept = {"n_support_": int(a.any(axis=1).sum())}
        return Final(a, bias, worst_rows([fit.rows for fit in fits]), tuple(facts), kept)

    @property
    def _sparse(self) -> bool:
        return True


class OverRho(VariationAnswers, FusedEstimator):
    """Maximal variation: (28) of [Pelckmans2005]_ along its exact path."""

    _page, _chooses = "fused_maximal_variation", "rho"

    def _at(self, rho: float) -> Variation:
        return Variation(rho, self.expansion, self.ridge, self.cutoff, "auto")

    def _rules(self) -> float:
        self._at(1.0)
        return super()._rules()

    def _choose(self, kernel: Kernel, rounds: tuple[Round, ...]) -> Choice:
        folds, whole = [], self._at(1.0)
        for one in rounds:
            Gram.of(kernel, one.X)  # refuses what does not fit memory, warns of a degenerate kernel
            matrices = kernel_matrices(kernel, one.X)  # type: ignore[arg-type]
            parts = kernel.components(one.X.shape[1])  # type: ignore[attr-defined]
            below = [part(one.X_check, one.X) for part in parts]
            for train, check in one.machines(self._labels):
                if not check.rows.size:
                    continue
                coordinates = whole.coordinates([train.square(matrix) for matrix in matrices])
                rows = [np.ascontiguousarray(part[np.ix_(check.rows, train.rows)]) for part in below]
                folds.append(VariationFold.of(coordinates, train.y, coordinates.rows_at(rows), check.y))
        read = read_off([fold.track for fold in folds], [fold.path for fold in folds])
        choice = _chosen(kernel, "rho", read, folds)
        if len(folds) == 1:
            choice.path["maximal_variation"] = folds[0].variations
        return choice

    def _final(self, kernel: Kernel, X: Any, Y: Array, value: float) -> Final:
        matrices = kernel_matrices(kernel, X)  # type: ignore[arg-type]
        variation, tol = self._at(smallest_rho(value, Y)), self._tolerance()
        machines, fits = list(each_machine(Y, self._labels)), []
        for one in machines:
            coordinates = variation.coordinates([one.square(matrix) for matrix in matrices])
            fit = variation.fit(coordinates, one.y)
            if not fit.exact:
                fit = _followed(coordinates, one.y, float(variation.rho)) or fit
            points: Any = one.points(X, False)
            fits.append(with_answer(kernel, points, coordinates, one.y, variation, fit, tol))  # type: ignore[arg-type]
        a = in_columns(machines, [fit.coefficients for fit in fits], Y.shape[0])
        facts = (("kernel", repr(kernel)), *dict.fromkeys(fact for fit in fits for fact in fit.facts))
        t = np.array([fit.maximal_variation for fit in fits])
        kept = {"maximal_variation_": t[0] if Y.shape[1] == 1 else t}
        bias = np.array([fit.bias for fit in fits])
        return Final(a, bias, worst_rows([fit.rows for fit in fits]), facts, kept)


def _followed(coordinates: ComponentCoordinates, y: Array, rho: float) -> VariationFit | None:
    """The machine at rho from its own path, where an interior point is not accurate enough."""
    B = right_divided(coordinates.parts, coordinates.metric)
    path = variation_path(list(B), coordinates.targets(y))
    if not path.covers(rho):
        return None
    point = path.at(rho)
    v = solve_triangular(coordinates.metric, point.primal)
    t = np.abs(coordinates.parts @ v).max(axis=1)
    solved = VariationSolution(v, t, *sides_of(point.dual.reshape(B.shape[:2]), rho), 0, 0, True)
    rows = solution_rows(coordinates, y, rho, solved, 1e-6)
    facts = (*coordinates.record(), ("rho", f"{rho:g}"), ("solver", f"exact path, {len(path)} knots"))
    witness = refined_witness(coordinates, VariationWitness(v, solved.xi_plus - solved.xi_minus), rho)
    return VariationFit(coordinates.expand(v), coordinates.bias_of(y, v), t, rows, facts, True, witness)


def _is_known(kernel: Kernel, X: Any, matrix: Array, y: Array, path: Path, zeta: float, how: Solving) -> bool:
    """Whether double precision determines the L1 substrate at zeta to the tolerance, by the point of its path."""
    point = path.at(zeta)
    fitted = matrix @ point.primal + point.bias
    machine = SparseMachine(y, max(zeta, float(np.finfo(np.float64).tiny)), point.primal, point.bias, fitted)
    return sparse_accuracy(kernel, X, matrix, machine, how)[0].passes


def _chosen(kernel: Kernel, name: str, read: ReadOff, folds: list[Any]) -> Choice:
    low, high = read.coverage
    stops = dict.fromkeys(fold.path.stop for fold in folds)
    path = {
        "parameter": name,
        "values": read.values,
        "criterion": read.errors,
        "coverage": read.coverage,
        "holes": read.holes,
        "stop": "; ".join(stops),
    }
    covered = f"{name} from {low:g} " + ("on" if np.isinf(high) else f"to {high:g}")
    if read.at_lower_end:
        covered += "; best at the lower end" + (f", {name}_min widens it" if name == "zeta" else "")
    if read.ended:
        covered += "; it ends where rounding hides what is below"
    facts = [
        ("fused over", covered + ("".join(f", not {start:g} to {stop:g}" for start, stop in read.holes))),
        ("exact path", f"{read.values.size} knots, {read.minima} local minima inside segments"),
    ]
    return Choice(kernel, read.value, read.error, read.lower_bound, path, tuple(facts))
