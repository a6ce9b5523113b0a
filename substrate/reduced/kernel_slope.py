r"""The derivatives of a criterion on a reduced basis in the scales of its kernel, in one or two passes over the rows.

The machine on features :math:`Z = \Phi T`, with :math:`\Phi` the kernel values between rows and basis, and
:math:`T T^T = K_{SS}^{-1}` on the directions kept, depends on :math:`Z Z^T` alone. So with :math:`G = \partial F /
\partial Z`, one row for each row of the data,

.. math:: dF = (G T^T) : d\Phi - \tfrac12 (T Z^T G\, T^T) : dK_{SS},

for a basis that stays while the kernel changes. (A change of the directions that were left out as rounding is
neglected.) By the slope W of :mod:`substrate.least_squares.kernel_slope` in :math:`Z Z^T` it is :math:`G = 2 W Z`. With
:math:`\tilde z_i` the features about their mean, :math:`H = \sum_i v_i \tilde z_i \tilde z_i^T + \lambda I`, weights u,
errors e, and everything of rows times the roots of their weights, :math:`B Z = \tilde Z H^{-1}`, :math:`Z^T \alpha =
u`, :math:`\lambda \alpha = e`, :math:`\lambda B_{ii} = 1 - h_{ii}`. So with the response p, m, c of a criterion and
:math:`b = H^{-1} \tilde Z^T p`

.. math:: G = 2 B \operatorname{diag}(m) \tilde Z H^{-1} + 2 c \tilde Z H^{-1} - (B p)\, u^T - \alpha\, b^T, \qquad
          \lambda B x = x - \bar x - \tilde Z H^{-1} \tilde Z^T x .

- The responses of :mod:`substrate.least_squares.kernel_slope` are functions of the errors, features and leverages of
  single rows; one pass sums what b and the first term need, and another one the derivatives.
- A fold of weight m with errors :math:`\varepsilon` has :math:`b = H^{-1} \sum_j v_j \varepsilon_j \tilde z_j`:
  :math:`-\frac2m v_j \varepsilon_j u` for its rows, and :math:`\frac2m v_i \big( (\tilde z_i^T b) u - e_i b + \bar
  \varepsilon u \big)` for the others, :math:`\bar \varepsilon` the weighted sum of :math:`\varepsilon` over their
  weight.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from substrate.arrays import Array
from substrate.least_squares.kernel_slope import evidence_response, gcv_response, left_out_response
from substrate.reduced.features import LinearFeatures
from substrate.reduced.folds import GivenFolds
from substrate.reduced.moments import Moments, Origin
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.streaming.passes import Tally
from substrate.streaming.rows import Block
from substrate.threads import blas_threads

__all__ = ["RESPONSES", "RowSlopes", "fold_rows", "scale_slopes", "slopes_of_rows"]

#: Least 1 - h_ii, as in :mod:`~substrate.reduced.left_out`.
_LEAST = 1e-30


@dataclass(frozen=True, slots=True)
class MachineRows:
    """The machine of a spectrum at one lambda: H^-1 and u."""

    spectrum: ReducedSpectrum
    lam: float
    inverse: Array
    weights: Array

    @classmethod
    def of(cls, spectrum: ReducedSpectrum, lam: float) -> "MachineRows":
        """Invert H."""
        Q = spectrum.rotation
        return cls(spectrum, lam, np.asarray((Q / (spectrum.values + lam)) @ Q.T), spectrum.weights(lam))

    def parts(self, Z: Array, targets: Array) -> tuple[Array, Array]:
        """Return features about the mean, and errors, of rows with features about the origin, and targets in their
        unit.
        """
        centred = Z - self.spectrum.mean
        centre = self.spectrum.origin.targets + self.spectrum.target_mean
        return centred, (targets - centre) - centred @ self.weights


#: From centred features, errors and weights of rows to p times the roots of the weights, one column per output, and m
#: times the weights, both over lambda.
Response = Callable[[Array, Array, Array], tuple[Array, Array]]


def leave_rows_out(machine: MachineRows) -> tuple[Response, float]:
    """Return the response of the mean square leave-one-out residual, by lambda B_ii = 1 - h_ii and lambda alpha = e."""

    def response(centred: Array, errors: Array, v: Array) -> tuple[Array, Array]:
        leverages = v * (1.0 / machine.spectrum.mass + np.einsum("ij,ij->i", centred, centred @ machine.inverse))
        spare = np.maximum(1.0 - leverages, _LEAST)
        row = left_out_response(spare, np.sqrt(v)[:, None] * errors, machine.spectrum.n)
        if row.diagonal is None:
            raise TypeError("leave-one-out responds to the diagonal")
        return np.sqrt(v)[:, None] * row.support, v * row.diagonal

    return response, 0.0


def validate_by_means(machine: MachineRows) -> tuple[Response, float]:
    """Return the response of generalised cross-validation; rows have weights where the sums by squares are."""
    spectrum, lam, lambdas = machine.spectrum, machine.lam, np.array([machine.lam])
    coordinates = spectrum.machine(weighted=True)
    inverses = coordinates.inverses(lambdas)
    squares = float(coordinates.support_squares(inverses, lambdas).sum())
    trace = float(coordinates.trace(inverses, lambdas)[0])
    mean = gcv_response(machine.weights, squares, trace, spectrum.n, np.ones(1))
    if mean.diagonal is None:
        raise TypeError("generalised cross-validation responds to the diagonal")
    factor = 2.0 * spectrum.n / trace**2 / machine.weights.shape[1] / lam**2
    steep = float(mean.diagonal[0]) / lam * spectrum.n / spectrum.mass

    def response(centred: Array, errors: Array, v: Array) -> tuple[Array, Array]:
        return factor * v[:, None] * errors, steep * v * v

    return response, 0.0


def find_evidence(machine: MachineRows) -> tuple[Response, float]:
    """Return the response of the variance whose smallest value is at the largest evidence."""
    lam, lambdas, coordinates = machine.lam, np.array([machine.lam]), machine.spectrum.machine()
    quadratic = float(coordinates.quadratic(coordinates.inverses(lambdas), lambdas).sum())
    stretch = lam * float(np.exp(coordinates.mean_log_stretch(lambdas)[0]))
    of_sums = evidence_response(np.ones_like(machine.weights), quadratic, stretch, coordinates.free)
    factor = float(of_sums.support.flat[0]) / lam if of_sums.support.size else 0.0

    def response(centred: Array, errors: Array, v: Array) -> tuple[Array, Array]:
        return factor * v[:, None] * (errors + centred @ machine.weights), np.zeros(v.size)

    return response, of_sums.volume


#: By the names of ``cv``: the response of rows, and that of the determinant.
RESPONSES: dict[str, Callable[[MachineRows], tuple[Response, float]]] = {
    "loo": leave_rows_out,
    "gcv": validate_by_means,
    "evidence": find_evidence,
}


@dataclass(frozen=True, slots=True)
class RowSlopes:
    r"""The rows of G of one machine: :math:`v_i (M \tilde z_i + A e_i + u\, (\tilde z_i^T B)^T + s)`, and :math:`2
    \omega_i H^{-1} \tilde z_i - u w_i` by the ``response`` of single rows, if any.

    Rows of its fold have :math:`v_i\, C e_i` instead. Outputs are the columns of ``errors`` (A), ``along`` (B),
    ``held`` (C).
    """

    machine: MachineRows
    quadratic: Array
    errors: Array
    along: Array
    shift: Array
    held: Array | None = None
    response: Response | None = None

    def of(self, centred: Array, errors: Array, v: Array) -> Array:
        """Return the rows of G for rows of the fit."""
        u = self.machine.weights
        slopes = centred @ self.quadratic + errors @ self.errors.T + (centred @ self.along) @ u.T + self.shift
        slopes = v[:, None] * slopes
        if self.response is not None:
            w, omega = self.response(centred, errors, v)
            slopes = slopes + 2.0 * omega[:, None] * (centred @ self.machine.inverse) - w @ u.T
        return np.asarray(slopes)

    def with_trace(self, rate: float) -> "RowSlopes":
        """Add ``rate`` times the slope of the trace of the scatter."""
        return replace(self, quadratic=self.quadratic + 2.0 * rate * np.eye(self.quadratic.shape[0]))


def fold_rows(spectrum: ReducedSpectrum, fold: Moments, lam: float, share: float) -> RowSlopes:
    """Return the slopes of ``share`` times the mean square error on a fold, the mean over the outputs; ``spectrum``
    is of the others.
    """
    machine = MachineRows.of(spectrum, lam)
    u = machine.weights
    held_out = fold.shift_to(spectrum.mean, spectrum.target_mean)
    b = machine.inverse @ (held_out.cross - held_out.second @ u)
    factor = 2.0 * share / (held_out.mass * u.shape[1])
    shift = factor / spectrum.mass * (u @ (held_out.targets - held_out.first @ u))
    return RowSlopes(
        machine=machine,
        quadratic=np.zeros((u.shape[0],) * 2),
        errors=-factor * b,
        along=factor * b,
        shift=shift,
        held=-factor * u,
    )


def slopes_of_rows(spectrum: ReducedSpectrum, lam: float, rows: KernelRows, criterion: str) -> RowSlopes:
    """Return the slopes of a criterion, one of the names of :data:`RESPONSES`, the mean over the outputs; one pass."""
    machine = MachineRows.of(spectrum, lam)
    response, volume = RESPONSES[criterion](machine)
    sums = rows.sums(ResponsesOfBlock(rows.values, machine, response))
    inverse, u = machine.inverse, machine.weights
    b = inverse @ sums.cross
    total = 2.0 * inverse @ sums.first - u @ sums.total
    with blas_threads(u.shape[0]):
        quadratic = 2.0 * volume * inverse - 2.0 * (inverse @ sums.second @ inverse)
    return RowSlopes(
        machine=machine,
        quadratic=quadratic,
        errors=-b,
        along=b,
        shift=-total / spectrum.mass,
        response=response,
    )


@dataclass(frozen=True, slots=True)
class ResponseSums(Tally):
    """Sums over rows: of w; of w times features; of omega times features, and times their products."""

    total: Array
    cross: Array
    first: Array
    second: Array


@dataclass(frozen=True, slots=True)
class ResponsesOfBlock:
    """The sums of a block."""

    values: KernelValues
    machine: MachineRows
    response: Response

    def __call__(self, block: Block) -> ResponseSums:
        """Add up tile by tile."""
        r, outputs = self.machine.weights.shape
        sums = ResponseSums(np.zeros(outputs), np.zeros((r, outputs)), np.zeros(r), np.zeros((r, r)))
        for _, Z, targets, v in _features(self.values, self.machine.spectrum, block):
            centred, errors = self.machine.parts(Z, targets)
            w, omega = self.response(centred, errors, v)
            by_omega = centred * omega[:, None]
            sums = sums + ResponseSums(w.sum(axis=0), centred.T @ w, by_omega.sum(axis=0), by_omega.T @ centred)
        return sums


def _features(
    values: KernelValues, spectrum: ReducedSpectrum, block: Block
) -> Iterator[tuple[slice, Array, Array, Array]]:
    """Yield tiles: their rows, features about the origin, targets in their unit, and weights."""
    origin: Origin = spectrum.origin
    for rows, Z in LinearFeatures(values, origin.kernel_values, spectrum.features.transform).tiles(block.X):
        v = np.ones(Z.shape[0]) if block.weights is None else block.weights[rows]
        yield rows, Z, block.Y[rows] / origin.unit, v


@dataclass(frozen=True, slots=True)
class ScaleSums(Tally):
    """The slopes in the scales through the kernel values of rows, and Z'G."""

    slopes: Array
    products: Array


@dataclass(frozen=True, slots=True)
class ScaleSumsOfBlock:
    """The sums of a block, over all machines."""

    values: KernelValues
    machines: tuple[RowSlopes, ...]
    folds: GivenFolds | None

    def __call__(self, block: Block) -> ScaleSums:
        """Add up tile by tile."""
        kernel, spectrum = self.values.kernel, self.machines[0].machine.spectrum
        T = spectrum.features.transform
        sums = ScaleSums(np.zeros(len(kernel.scales())), np.zeros((T.shape[1],) * 2))
        for rows, Z, targets, v in _features(self.values, spectrum, block):
            labels = None if self.folds is None else self.folds.labels[block.rows][rows]
            G = np.zeros(Z.shape)
            for number, slopes in enumerate(self.machines):
                centred, errors = slopes.machine.parts(Z, targets)
                row_slopes = slopes.of(centred, errors, v)
                if labels is not None and slopes.held is not None:
                    members = np.flatnonzero(labels == number)
                    row_slopes[members] = v[members, None] * (errors[members] @ slopes.held.T)
                G += row_slopes
            gradient = kernel.scale_gradient(block.X[rows], self.values.points, G @ T.T)
            sums = sums + ScaleSums(gradient, Z.T @ G)
        return sums


def scale_slopes(rows: KernelRows, machines: Sequence[RowSlopes], folds: GivenFolds | None = None) -> Array:
    """Return the derivatives in the logarithms of the scales of the kernel, of the sum over the machines; one pass."""
    sums = rows.sums(ScaleSumsOfBlock(rows.values, tuple(machines), folds))
    points, kernel = rows.values.points, rows.values.kernel
    T = machines[0].machine.spectrum.features.transform
    with blas_threads(T.shape[0]):
        inner = -0.25 * T @ (sums.products + sums.products.T) @ T.T
    return np.asarray(sums.slopes + kernel.scale_gradient(points, points, inner))
