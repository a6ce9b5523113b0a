r"""Certificate rows of a reduced-basis LS-SVM, recomputed from data and solution in one pass over the rows.

With :math:`e_i = t_i - \sum_j \beta_j k(x_i, z_j) - b` and :math:`u = s^{1/2} V^T \beta`, the objective's gradients
are :math:`-\gamma 1^T e`, :math:`K_{SS} \beta - \gamma \hat K^T e`, the normal equations of [Cawley2004]_ eq. (3), and,
in the features, :math:`u - \gamma Z^T e`. The point :math:`\alpha = \gamma e` is dual feasible where
:math:`1^T e = 0`, and the duality gap, which bounds the distance of the objective from its minimum, is

.. math:: P - D = \tfrac12 \| u - \gamma Z^T e \|^2 - \gamma\, b\, 1^T e .
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rows import roundoff
from substrate.closed_form.eigen_features import EigenFeatures
from substrate.namespaces import namespace_of, to_numpy

__all__ = ["Residuals", "reduced_rows"]


@dataclass(frozen=True, slots=True)
class Residuals:
    """Sums over rows, one column per output: K'e, 1'e, e'e and t't; and the squares of all kernel values.

    ``shifts`` and ``spreads`` are of the targets about a centre, and their squares; ``mass`` is the weight of all rows,
    ``diagonal`` the sum of all v k(x, x), and ``rounding`` the largest relative error of a kernel value.
    """

    count: int
    slope: Array
    total: Array
    squares: Array
    targets: Array
    kernel_squares: float
    shifts: Array
    spreads: Array
    mass: float
    diagonal: float
    rounding: float

    def __add__(self, other: "Residuals") -> "Residuals":
        return Residuals(
            self.count + other.count,
            self.slope + other.slope,
            self.total + other.total,
            self.squares + other.squares,
            self.targets + other.targets,
            self.kernel_squares + other.kernel_squares,
            self.shifts + other.shifts,
            self.spreads + other.spreads,
            self.mass + other.mass,
            self.diagonal + other.diagonal,
            max(self.rounding, other.rounding),
        )

    @property
    def norm(self) -> float:
        """The Frobenius norm of K."""
        return float(np.sqrt(self.kernel_squares))


def reduced_rows(
    residuals: Residuals,
    features: EigenFeatures,
    K_basis: Array,
    coefficients: Array,
    weights: Array,
    bias: Array,
    lam: float,
) -> list[tuple[Row, ...]]:
    """Rows for every output. Gradients are divided by gamma, so that a scale is never infinite."""
    xp = namespace_of(K_basis)
    tolerance = roundoff(features.n_basis + int(np.sqrt(residuals.count)))
    norm_basis = float(xp.linalg.vector_norm(K_basis))
    norm_transform = float(np.sqrt(float(xp.sum(1.0 / features.values))))
    # ||z||^2 is k(x, x) at most
    norm_features = float(np.sqrt(residuals.count * float(xp.mean(xp.linalg.diagonal(K_basis)))))
    # what takes a matrix is done where the matrix is; a few vectors are judged on the host
    slopes_in_beta = to_numpy(lam * (K_basis @ coefficients) - residuals.slope)
    gradients = to_numpy(lam * weights - features.transform.T @ residuals.slope)
    coefficients, weights = to_numpy(coefficients), to_numpy(weights)
    checks: list[tuple[Row, ...]] = []
    for k in range(bias.size):
        beta, u, b = coefficients[:, k], weights[:, k], float(bias[k])
        norm_beta = float(np.linalg.norm(beta))
        # what the errors are the difference of: their rounding is that of the largest of these
        terms = float(np.sqrt(residuals.targets[k])) + np.sqrt(residuals.count) * abs(b) + residuals.norm * norm_beta
        in_beta = float(np.linalg.norm(slopes_in_beta[:, k]))
        in_w = float(np.linalg.norm(gradients[:, k]))
        # the rounding of e, which features keep small, and that of the sums K'e, which the transform magnifies
        magnified = residuals.norm * norm_transform * float(np.sqrt(residuals.squares[k]))
        scale_w = lam * float(np.linalg.norm(u)) + norm_features * terms + magnified
        norm_squared, total = float(u @ u), float(residuals.total[k])
        # lambda times the objectives: lambda/2 u'u + 1/2 e'e, and a gap of 1/(2 lambda) ||lambda u - Z'e||^2
        gap = 0.5 * in_w**2 / lam + abs(b * total)
        value = 0.5 * lam * norm_squared + 0.5 * float(residuals.squares[k])
        spare = (tolerance * scale_w) ** 2 / lam + tolerance * float(np.sqrt(residuals.count)) * abs(b) * terms
        checks.append(
            (
                Row("1'e = 0", total, float(np.sqrt(residuals.count)) * terms, tolerance, "|1'e|"),
                Row(
                    "stationarity in beta",
                    in_beta,
                    lam * norm_basis * norm_beta + residuals.norm * terms,
                    tolerance,
                    "||K_SS beta / gamma - K'e||",
                ),
                Row("stationarity in w", in_w, scale_w, tolerance, "||u / gamma - Z'e||"),
                Row("duality gap", gap, value + spare / tolerance, tolerance, "(primal - dual objective) / gamma"),
            )
        )
    return checks
