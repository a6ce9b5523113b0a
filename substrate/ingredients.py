r"""Ingredients of pages: constraints and terms with their multipliers, residuals and certificate rows.

Builders take cvxpy expressions; residuals and rows take plain numbers, so that a closed form is certified by the same
code and never imports cvxpy.

*Fit equalities.* :math:`y_i = f(x_i) + e_i` in regression, :math:`y_i f(x_i) = 1 - e_i` in classification.

Their multipliers are the support values :math:`\alpha`: [Pelckmans2005]_ eq. (1), [Suykens2002]_ eq. (1) and (3).
cvxpy reflects ``y == f + e`` when y is a numpy array and then returns minus alpha; written as ``y - f - e == 0`` the
Lagrangian is :math:`J + \lambda^T(y - f - e)`, whose stationarity in e reads :math:`\gamma v e = \lambda`: the paper's
sign, on every solver.

For classification, [Pelckmans2005]_ eq. (4), [Carvalho2006]_ eq. (2), the labels are :math:`y_i \in \{-1, +1\}`.
Because :math:`y_i^2 = 1`, these equalities are the ones of regression on y multiplied by :math:`y_i`, so

.. math:: \alpha^{\text{class}} = y \circ \alpha^{\text{reg}}, \qquad e^{\text{class}} = y \circ e^{\text{reg}},
          \qquad \Omega = y y^T \circ K .

A hinge is ``cp.pos(e)``: e = 1 - y f is the margin's shortfall.

*Sum to zero.* :math:`1^T \alpha = 0`: stationarity in the bias, or, in the dual, a constraint whose multiplier is b. In
classification the condition reads :math:`y^T \alpha = 0`. [Pelckmans2005]_ below eq. (1) and in (5), [Suykens2002]_
eq. (4). It holds because the bias is not penalised.

*Squared terms* of an LS-SVM's objective, and their conditions for stationarity.

.. math:: \tfrac12 w^T w, \qquad w = \sum_i \alpha_i \varphi(x_i); \qquad
          \tfrac{\gamma}{2} \sum_i v_i e_i^2, \qquad \alpha_i = \gamma v_i e_i

[Pelckmans2005]_ eq. (1), [Suykens2002]_ eq. (4) and, with weights v, (10). The norm is in factor coordinates: with
:math:`K = R R^T` the rows of R are finite-dimensional features of the training points, so :math:`f = R w + b 1` and
:math:`w = R^T \alpha`. A quadratic form in K itself is never passed to a solver: solvers fail on its negative
eigenvalues of rounding size.

*Huber's errors*: the term :math:`\gamma \sum_i v_i h_\delta(e_i)`, its stationarity, and its dual.

.. math::

    h_\delta(e) = \begin{cases} \tfrac12 e^2 & |e| \le \delta \\ \delta |e| - \tfrac12 \delta^2 & |e| > \delta
    \end{cases}, \qquad \alpha_i = \gamma v_i \, \mathrm{clip}(e_i, -\delta, \delta)

[Huber1964]_. No support value exceeds :math:`\gamma v_i \delta`, however large the error of its row. The conjugate of
the term is the conjugate of the squared errors with a bound, :math:`\sum_i \alpha_i^2 / (2 \gamma v_i)` where
:math:`|\alpha_i| \le \gamma v_i \delta`; in the shares :math:`a = \alpha / \gamma` the bound does not contain gamma.

*Sparsity*: the term :math:`\zeta \|\alpha\|_1` and its optimality condition.

With :math:`c = \Phi^T e` the correlations of the errors with the atoms and :math:`\nu` the multiplier of
:math:`1^T a = 0`, optimality reads :math:`|c_i - \nu| \le \zeta` for every atom, with
:math:`\zeta |a_i| = a_i (c_i - \nu)`: [Pelckmans2005]_ eq. (16). As two rows: the largest excess over the bound, and
the sum of the products, each of which is non-negative where the bound holds.

*Weights of maximal variations*: one number for all components, or one for each.

.. math:: \rho \sum_l t_l \qquad \text{or} \qquad \sum_l \rho_l t_l, \quad \rho_l > 0 .

Groups of components that share a number are a vector with equal entries. One number is computed with as such, in the
order of operations that it always had, so that results with it do not depend on vectors being possible.

*Bounds on components*: :math:`-t_l 1 \le f^l \le t_l 1`, with t the maximal variations.

Their multipliers are :math:`\xi^{-l}` (lower) and :math:`\xi^{+l}` (upper), non-negative. With
:math:`\sum_l \rho_l t_l` in the objective, stationarity in t reads :math:`1^T(\xi^{-l} + \xi^{+l}) = \rho_l` for each
l (:math:`\rho_l = \rho` in the paper), and complementary slackness :math:`\xi^{-l}_i (t_l + f^l_i) = 0`,
:math:`\xi^{+l}_i (t_l - f^l_i) = 0`: [Pelckmans2005]_ eq. (13), (24)-(27).

Erratum: (27b) is printed as one equation for all components; it holds for each of them.

*Complementary slackness* as a report: every product of a multiplier and its slack, and their sum.

.. math:: \xi^{-l}_i (t_l + f^l_i), \qquad \xi^{+l}_i (t_l - f^l_i), \qquad i = 1, \dots, N, \quad l = 1, \dots, d

[Pelckmans2005]_ eq. (27e), (27f). Where the linear conditions (27a) to (27d) hold, no product is negative and their sum
is the duality gap of the training problem: it vanishes exactly where the machine is trained. The check works on plain
numbers from any source; :math:`\rho \sum_l t_l`, the cost of the penalty, is the size they are compared with.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, positive, real_array, real_targets
from substrate.certificate import Row
from substrate.errors import DataError, DeclarationError

__all__ = [
    "ClassificationFit",
    "ComplementarySlackness",
    "ComponentBounds",
    "HuberErrors",
    "RegressionFit",
    "SquaredErrors",
    "SquaredNorm",
    "Weights",
    "ZeroSum",
    "classification_fit",
    "complementary_slackness",
    "component_bounds",
    "error_row",
    "fit_row",
    "huber_conjugate",
    "huber_errors",
    "huber_loss",
    "huber_rows",
    "margin_row",
    "norm_row",
    "penalty",
    "regression_fit",
    "signed_labels",
    "slackness_products",
    "sparsity",
    "sparsity_rows",
    "squared_errors",
    "squared_norm",
    "variation_rows",
    "weights_of",
    "zero_sum",
    "zero_sum_row",
]

# --- fit equalities ---------------------------------------------------------------------------------------------------

#: The name of the fit equalities in a certificate.
LABEL = "fit equalities"


@dataclass(frozen=True, slots=True)
class RegressionFit:
    """The labelled constraint y - f - e = 0 and the reading of its dual."""

    constraint: Any
    y: Array
    f: Any
    e: Any

    @property
    def multiplier(self) -> Array:
        """Return the support values alpha, in the paper's sign."""
        return np.asarray(self.constraint.dual_value, dtype=np.float64)

    def row(self, tolerance: float) -> Row:
        """Return how well the solver's point satisfies the equalities."""
        return fit_row(self.y, np.asarray(self.f.value), np.asarray(self.e.value), tolerance)


def regression_fit(y: Array, f: Any, e: Any) -> RegressionFit:
    """Build y - f - e = 0 from a target and two affine expressions.

    :equation [Suykens2002]_ (3): the Lagrangian of the equalities, its multipliers in the paper's sign
    """
    constraint = y - f - e == 0
    constraint.set_label(LABEL)
    return RegressionFit(constraint, y, f, e)


def fit_row(y: Array, f: Array, e: Array, tolerance: float) -> Row:
    """Compare ||y - f - e|| with the size of its terms."""
    size = float(np.linalg.norm(y) + np.linalg.norm(f) + np.linalg.norm(e))
    return Row(
        name=LABEL, value=float(np.linalg.norm(y - f - e)), scale=size, tolerance=tolerance, formula="||y - f - e||"
    )


class ClassificationFit(RegressionFit):
    """The labelled constraint 1 - y∘f - e = 0 and the reading of its dual."""

    __slots__ = ()

    def row(self, tolerance: float) -> Row:
        """Return how well the solver's point satisfies the equalities."""
        return margin_row(self.y, np.asarray(self.f.value), np.asarray(self.e.value), tolerance)


def classification_fit(y: Array, f: Any, e: Any) -> ClassificationFit:
    """Build 1 - y∘f - e = 0; stationarity in e of J + alpha'(1 - y∘f - e) is alpha = gamma v e."""
    import cvxpy as cp

    constraint = 1.0 - cp.multiply(y, f) - e == 0
    constraint.set_label(LABEL)
    return ClassificationFit(constraint, y, f, e)


def margin_row(y: Array, f: Array, e: Array, tolerance: float) -> Row:
    """Compare ||1 - y∘f - e|| with the size of its terms."""
    size = float(np.sqrt(y.size) + np.linalg.norm(f) + np.linalg.norm(e))
    return Row(
        name=LABEL,
        value=float(np.linalg.norm(1.0 - y * f - e)),
        scale=size,
        tolerance=tolerance,
        formula="||1 - y f - e||",
    )


def signed_labels(y: Any, n: int, name: str = "y") -> Array:
    """Return labels checked to be -1 or +1, both present, one for each row."""
    labels = real_targets(y, n, name)
    if not np.isin(labels, (-1.0, 1.0)).all():
        raise DataError(
            f"{name} must hold labels -1 and +1, received {np.unique(labels)[:5]}; map your classes to them first"
        )
    if np.unique(labels).size < 2:
        raise DataError(f"{name} holds one class only ({labels[0]:+.0f}); a classifier needs both")
    return labels


# --- sum to zero ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ZeroSum:
    """The labelled constraint and the reading of its dual as the bias."""

    constraint: Any

    @property
    def multiplier(self) -> Array:
        """Return the bias b, in the paper's sign."""
        return np.asarray(self.constraint.dual_value, dtype=np.float64)


def zero_sum(terms: Any, letter: str = "1") -> ZeroSum:
    """Build 1'terms = 0, column by column, where the terms are alpha (letter 1) or y∘alpha (letter y).

    The dual maximises, so cvxpy minimises -y'alpha + ... + b (1'alpha): stationarity reads y = (K + D) alpha + b 1, and
    the multiplier is +b.
    """
    import cvxpy as cp

    constraint = cp.sum(terms, axis=0 if terms.ndim == 2 else None) == 0
    constraint.set_label(f"{letter}'alpha = 0")
    return ZeroSum(constraint)


def zero_sum_row(
    terms: Array, tolerance: float, data: Array | None = None, letter: str = "1", of: str = "alpha"
) -> Row:
    """Compare ``|1'terms|`` of alpha or of the errors with the sum of absolute values: of the terms and, at a solver's
    point, of gamma v y.

    Against alpha alone, the noise that a solver leaves where alpha = 0 (a constant target) could never pass.
    """
    total = float(np.abs(terms).sum()) + (0.0 if data is None else float(np.abs(data).sum()))
    return Row(
        name=f"{letter}'{of} = 0",
        value=float(np.abs(terms.sum(axis=0)).max()),
        scale=total,
        tolerance=tolerance,
        formula=f"|{letter}'{of}|",
    )


# --- squared terms ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SquaredNorm:
    """The convex term for a vector expression: w itself, or R' alpha."""

    term: Any
    w: Any
    factor: Array

    def row(self, coefficients: Array, tolerance: float, data: Array | None = None) -> Row:
        """Return stationarity in w at the solver's point; ``data`` are coefficients gamma v y of the point w = 0."""
        return norm_row(np.asarray(self.w.value), self.factor, coefficients, tolerance, data)


def squared_norm(w: Any, factor: Array) -> SquaredNorm:
    """Build 1/2 w'w."""
    import cvxpy as cp

    return SquaredNorm(0.5 * cp.sum_squares(w), w, factor)


def norm_row(w: Array, factor: Array, coefficients: Array, tolerance: float, data: Array | None = None) -> Row:
    """Compare ||w - R' a|| with the sizes of its terms and of those at the point w = 0."""
    size = float(np.linalg.norm(w) + np.linalg.norm(factor.T @ coefficients))
    size += 0.0 if data is None else float(np.linalg.norm(factor) * np.linalg.norm(data))
    value = float(np.linalg.norm(w - factor.T @ coefficients))
    return Row(
        name="stationarity in w", value=value, scale=size, tolerance=tolerance, formula="||w - sum alpha phi(x)||"
    )


@dataclass(frozen=True, slots=True)
class SquaredErrors:
    """The convex term, affine in its parameter gamma."""

    term: Any
    gamma: Any
    weights: Array
    e: Any

    def row(self, support_values: Array, y: Array, tolerance: float) -> Row:
        """Return stationarity in e at the solver's point."""
        gamma_v = float(self.gamma.value) * self.weights
        return error_row(support_values, gamma_v, np.asarray(self.e.value), tolerance, y)


def squared_errors(e: Any, gamma: Any, weights: Array) -> SquaredErrors:
    """Build gamma/2 sum v e^2 with the weights inside the square, which keeps it DPP in gamma.

    :equation [Suykens2002]_ (11): the error term of the weighted Lagrangian, stationary at alpha = gamma v e
    """
    import cvxpy as cp

    return SquaredErrors(0.5 * gamma * cp.sum_squares(cp.multiply(np.sqrt(weights), e)), gamma, weights, e)


def error_row(support_values: Array, gamma_v: Array, e: Array, tolerance: float, y: Array) -> Row:
    """Return ||alpha/(gamma v) - e||, in units of y so that a large gamma does not magnify rounding."""
    implied = support_values / gamma_v
    size = float(np.linalg.norm(implied) + np.linalg.norm(e) + np.linalg.norm(y))
    return Row(
        name="stationarity in e",
        value=float(np.linalg.norm(implied - e)),
        scale=size,
        tolerance=tolerance,
        formula="||alpha/(gamma v) - e||",
    )


# --- Huber's errors ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HuberErrors:
    """The convex term, affine in its parameter gamma."""

    term: Any
    gamma: Any
    weights: Array
    delta: float
    e: Any

    def rows(self, support_values: Array, y: Array, tolerance: float) -> tuple[Row, ...]:
        """Return stationarity in e and the bound on the multipliers at the solver's point."""
        gamma_v = float(self.gamma.value) * self.weights
        return huber_rows(support_values, gamma_v, np.asarray(self.e.value), self.delta, tolerance, y)


def huber_errors(e: Any, gamma: Any, weights: Array, delta: float) -> HuberErrors:
    """Build gamma sum v h(e); cvxpy's own atom is twice Huber's loss."""
    import cvxpy as cp

    return HuberErrors(
        term=0.5 * gamma * cp.sum(cp.multiply(weights, cp.huber(e, delta))),
        gamma=gamma,
        weights=weights,
        delta=delta,
        e=e,
    )


def huber_conjugate(shares: Any, weights: Array, delta: float) -> tuple[Any, list[Any]]:
    """Build the dual of the term over gamma, for shares a = alpha/gamma: ``1/2 sum a^2/v``, ``|a| <= v delta``."""
    import cvxpy as cp

    bounds = [shares >= -delta * weights, shares <= delta * weights]
    for bound, label in zip(bounds, ("alpha >= -gamma v delta", "alpha <= gamma v delta"), strict=True):
        bound.set_label(label)
    return 0.5 * cp.sum_squares(cp.multiply(weights**-0.5, shares)), bounds


def huber_loss(e: Array, delta: float) -> Array:
    """Return h_delta of each error."""
    size = np.abs(e)
    return np.asarray(np.where(size <= delta, 0.5 * size * size, delta * (size - 0.5 * delta)))


def huber_rows(
    support_values: Array,
    gamma_v: Array,
    e: Array,
    delta: float,
    tolerance: float,
    y: Array,
    scale: float | None = None,
    bound_scale: float | None = None,
) -> tuple[Row, ...]:
    """Return ``||alpha/(gamma v) - clip(e)||``, in units of y, and by how much ``|alpha|/(gamma v)`` exceeds delta.

    The excess is measured by ``bound_scale``, otherwise like the first. A method that computes alpha itself can satisfy
    the bound to rounding of the bound, and should be held to that: where delta is below the rounding of y, no other
    scale reveals an alpha that is too large.
    """
    implied, clipped = support_values / gamma_v, np.clip(e, -delta, delta)
    size = float(np.linalg.norm(implied) + np.linalg.norm(clipped) + np.linalg.norm(y)) if scale is None else scale
    excess = max(0.0, float((np.abs(implied) - delta).max()))
    return (
        Row(
            name="stationarity in e",
            value=float(np.linalg.norm(implied - clipped)),
            scale=size,
            tolerance=tolerance,
            formula="||alpha/(gamma v) - clip(e)||",
        ),
        Row(
            name="bound on alpha",
            value=excess,
            scale=size if bound_scale is None else bound_scale,
            tolerance=tolerance,
            formula="max (|alpha|/(gamma v) - delta)",
        ),
    )


# --- sparsity ---------------------------------------------------------------------------------------------------------


def sparsity(coefficients: Any, weight: Any) -> Any:
    """Build weight ||a||_1, affine in its parameter."""
    import cvxpy as cp

    return weight * cp.norm1(coefficients)


def sparsity_rows(
    Phi: Array, y: Array, e: Array, a: Array, zeta: float, tolerance: float, balanced: bool = True, further: Any = 0.0
) -> tuple[Row, ...]:
    """Return the two rows, with the nu that leaves the smallest excess on the atoms in use (midway where none is).

    Unless ``balanced``, 1'a = 0 is not required and there is no nu. ``further`` is the gradient in a of other terms of
    the objective, such as a ridge, and is taken from the correlations.
    """
    c = Phi.T @ e - further
    weights = np.abs(a)
    total = float(weights.sum())
    nu = 0.0
    if balanced:
        nu = float((weights * (c - zeta * np.sign(a))).sum()) / total if total > 0.0 else float(c.max() + c.min()) / 2.0
    scale = zeta + float(np.abs(Phi.T @ (y - y.mean())).max(initial=0.0))
    excess = float(np.max(np.abs(c - nu) - zeta, initial=0.0))
    products = float(np.abs(zeta * weights - a * (c - nu)).sum())
    # the cost of a = 0, or, where that is zero (a constant target), the noise of a solver in the units of y
    size = zeta * total + 0.5 * float(np.sum((y - y.mean()) ** 2)) + 1e-6 * 0.5 * float(y @ y)
    return (
        Row(name="subgradient bound", value=excess, scale=scale, tolerance=tolerance, formula="max (|c - nu| - zeta)"),
        Row(
            name="subgradient slackness",
            value=products,
            scale=size,
            tolerance=tolerance,
            formula="sum |zeta |a| - a (c - nu)|",
        ),
    )


# --- weights of maximal variations ------------------------------------------------------------------------------------

#: One number for all components, or one for each.
Weights = float | Array


def weights_of(rho: Any, components: int | None = None, name: str = "rho") -> Weights:
    """Return the weights that were given: a positive number, or one for each component, of which there are so many."""
    if not isinstance(rho, (list, tuple)) and np.ndim(rho) != 1:
        return positive(rho, name)
    weights = list(rho)
    if components is not None and len(weights) != components:
        raise DeclarationError(
            f"{name} must be one number or one for each component: expected {components}, received {len(weights)}"
        )
    return real_array([positive(weight, f"{name}[{k}]") for k, weight in enumerate(weights)], name, ndim=1)


def penalty(rho: Weights, t: Array) -> float:
    """Return sum_l rho_l t_l."""
    return float(rho @ t) if isinstance(rho, np.ndarray) else float(rho * t.sum())


# --- bounds on components ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComponentBounds:
    """The labelled constraints on values stacked component by component, and the reading of their duals."""

    lower: Any
    upper: Any
    t: Any

    @property
    def constraints(self) -> list[Any]:
        """Return both constraints."""
        return [self.lower, self.upper]

    @property
    def multipliers(self) -> tuple[Array, Array]:
        """xi^- and xi^+, one row per component."""
        shape = (self.t.size, -1)
        return self.lower.dual_value.reshape(shape), self.upper.dual_value.reshape(shape)


def component_bounds(values: Any, t: Any) -> ComponentBounds:
    """Build -t_l <= values <= t_l for the stacked values of as many components as t has entries.

    :equation [Pelckmans2005]_ (26): the Lagrangian of the bounds, its multipliers in the paper's sign
    """
    spread = np.kron(np.eye(t.size), np.ones((values.size // t.size, 1)))
    lower, upper = values + spread @ t >= 0, values - spread @ t <= 0
    lower.set_label("components above -t")
    upper.set_label("components below t")
    return ComponentBounds(lower, upper, t)


def slackness_products(values: Array, t: Array, xi_minus: Array, xi_plus: Array) -> tuple[Array, Array]:
    """Return all products (27e) and (27f), one row per component."""
    return xi_minus * (t[:, None] + values), xi_plus * (t[:, None] - values)


def variation_rows(
    values: Array, t: Array, xi_minus: Array, xi_plus: Array, rho: Weights, cost: float, unit: float, tolerance: float
) -> tuple[Row, ...]:
    """Return (27b) to (27f) from plain numbers: values (d x N), t (d), multipliers (d x N each).

    ``cost`` is what the trivial machine costs and ``unit`` the size of the targets: the scales of products and values.

    :equation [Pelckmans2005]_ (27b)-(27f): the other optimality conditions, (27b) corrected
    """
    sums = np.abs((xi_minus + xi_plus).sum(axis=1) - rho)
    negative = max(0.0, -float(xi_minus.min()), -float(xi_plus.min()))
    excess = float(np.max(np.abs(values) - t[:, None], initial=0.0))
    lower, upper = slackness_products(values, t, xi_minus, xi_plus)
    # a target of zeros costs nothing; the scale is then a millionth of a unit
    largest, trifle = float(np.max(rho)), 1e-6 * unit
    size = cost + penalty(rho, np.abs(t)) + largest * trifle
    return (
        Row(
            name="(27b) sums of multipliers",
            value=float(sums.max()),
            scale=largest,
            tolerance=tolerance,
            formula="max_l |1'(xi- + xi+) - rho|",
        ),
        Row(name="(27c) multipliers >= 0", value=negative, scale=largest, tolerance=tolerance, formula="max (-xi)"),
        Row(name="(27d) bounds", value=excess, scale=unit, tolerance=tolerance, formula="max (|f^l| - t_l)"),
        Row(
            name="(27e) lower slackness",
            value=float(np.abs(lower).max()),
            scale=size,
            tolerance=tolerance,
            formula="max |xi- (t + f^l)|",
        ),
        Row(
            name="(27f) upper slackness",
            value=float(np.abs(upper).max()),
            scale=size,
            tolerance=tolerance,
            formula="max |xi+ (t - f^l)|",
        ),
        Row(
            name="sum of all products",
            value=float(np.abs(lower).sum() + np.abs(upper).sum()),
            scale=size,
            tolerance=tolerance,
            formula="sum (27e,f)",
        ),
    )


# --- complementary slackness ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComplementarySlackness:
    """All products (27e) and (27f), one row per component, the size they are compared with, and the tolerance."""

    lower: Array
    upper: Array
    size: float
    tolerance: float

    @property
    def products(self) -> Array:
        """Return all of them in one vector: (27e) first."""
        return np.concatenate([self.lower.ravel(), self.upper.ravel()])

    @property
    def largest(self) -> float:
        """Return the product farthest from zero, by its absolute value."""
        return float(np.abs(self.products).max(initial=0.0))

    @property
    def sum(self) -> float:
        """Return the sum of absolute values: the duality gap, where (27a) to (27d) hold."""
        return float(np.abs(self.products).sum())

    @property
    def holds(self) -> bool:
        """Return whether the sum is small against the size."""
        return self.row().passes

    @property
    def verdict(self) -> str:
        """Return the finding in words."""
        summary = f"{self.products.size} products, the largest {self.largest:.3g}, together {self.sum:.3g}"
        against = f"against {self.size:.3g}"
        if self.holds:
            return f"complementary slackness holds: {summary} {against}; the machine is trained at this weight"
        return (
            f"complementary slackness fails: {summary} {against}; the machine is not trained at this weight, so its "
            "validation error does not belong to a trained machine"
        )

    def row(self) -> Row:
        """Return the sum as a row of a certificate."""
        return Row(
            name="complementary slackness",
            value=self.sum,
            scale=self.size,
            tolerance=self.tolerance,
            formula="sum of products (27e,f)",
        )

    def __str__(self) -> str:
        return self.verdict


def complementary_slackness(
    values: Any, t: Any, xi_minus: Any, xi_plus: Any, size: float | None = None, tolerance: float = 1e-6
) -> ComplementarySlackness:
    """Return the report on a point: component values (d x N), bounds t (d), multipliers (d x N each).

    ``size`` is what the sum of products is compared with; unless given, the sum of multipliers times their bounds,
    which is rho sum(t) where (27b) holds.

    :equation [Pelckmans2005]_ (27e)-(27f): complementary slackness, all products
    """
    named = {"values": values, "xi_minus": xi_minus, "xi_plus": xi_plus}
    arrays = [real_array(np.atleast_2d(array), name, ndim=2) for name, array in named.items()]
    bounds = real_array(t, "t", ndim=1)
    if len({array.shape for array in arrays}) > 1 or bounds.size != arrays[0].shape[0]:
        shapes = [array.shape for array in arrays]
        raise DataError(
            f"values, xi_minus and xi_plus have a row per entry of t and one shape: received {shapes} and {bounds.size}"
        )
    f, minus, plus = arrays
    judged = float(np.abs((minus + plus).sum(axis=1) * bounds).sum()) if size is None else positive(size, "size")
    lower, upper = slackness_products(f, bounds, minus, plus)
    return ComplementarySlackness(lower, upper, judged, positive(tolerance, "tolerance"))
