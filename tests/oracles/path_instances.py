"""Problems to follow a path on: kernels, ties, duplicated rows, finite rank, many and few components."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from substrate.certificate import Row, gap_row
from substrate.fits.l1 import l1_rows


def rbf(X, width):
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    return np.exp(-squares / (2.0 * width**2))


def l1_instance(seed):
    """Return columns and a target."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 90))
    X = rng.standard_normal((n, int(rng.integers(1, 6))))
    y = rng.standard_normal(n) + X[:, 0]
    kind = ("rbf", "duplicated", "linear", "cubic", "integers", "tall", "wide")[seed % 7]
    if kind == "duplicated":
        X = X[rng.integers(0, max(n // 2, 2), n)]
    if kind in ("rbf", "duplicated"):
        return kind, rbf(X, rng.uniform(0.3, 4.0)), y
    if kind == "linear":
        return kind, X @ X.T, y
    if kind == "cubic":
        return kind, (1.0 + X @ X.T) ** 3, y
    if kind == "integers":
        K = rng.integers(-2, 3, (n, n)).astype(float)
        return kind, K + K.T, rng.integers(-2, 3, n).astype(float)
    return kind, rng.standard_normal((n, max(2, n // 3) if kind == "tall" else 2 * n)), y


class ProxForm(NamedTuple):
    """A problem in coordinates u = R z: its components B^l, its target and R."""

    parts: tuple
    target: np.ndarray
    factor: np.ndarray

    def expand(self, u):
        """z from u."""
        return solve_triangular(self.factor, u)


def prox_form(A, y, components):
    """Coordinates in which 1/2 |A z - y|^2 is 1/2 |u - target|^2 and a constant, by a plain QR decomposition."""
    Q, R = np.linalg.qr(A)
    return ProxForm(tuple(solve_triangular(R, component.T, trans="T").T for component in components), Q.T @ y, R)


def shared_form(components, y, cutoff=1e-6):
    """Return one expansion for all components, in coordinates of the fitted values; the bias is free."""
    n = y.size
    stacked = np.vstack(components)
    Q, s, _ = np.linalg.svd(stacked - stacked.mean(axis=1)[:, None], full_matrices=False)
    blocks = [Q[k * n : (k + 1) * n, s > cutoff * s[0]] for k in range(len(components))]
    fitted = np.sum(blocks, axis=0)
    return prox_form(fitted - fitted.mean(axis=0), y - y.mean(), blocks)


KINDS = ("rbf", "narrow", "duplicated", "grid", "linear", "cubic", "mixed", "integers")


def variation_instance(seed, largest=40):
    """Components and a target: a kernel per column, or plain rows."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, largest))
    d = int(rng.integers(1, 13)) if seed % 10 else int(rng.integers(13, 51))
    kind = KINDS[seed % len(KINDS)]
    X, noise = rng.uniform(size=(n, d)), rng.standard_normal(n)
    if kind == "duplicated":
        X = X[rng.integers(0, max(n // 2, 2), n)]
    if kind == "grid":
        X = rng.integers(0, 4, (n, d)) / 3.0
    y = 4.0 * np.sin(3.0 * X[:, 0]) + X.sum(axis=1) + noise
    if kind == "integers":  # rows with many ties, in prox form already
        r = int(rng.integers(2, 9))
        blocks = tuple(rng.integers(-1, 2, (int(rng.integers(1, 9)), r)).astype(float) for _ in range(d))
        return kind, blocks, rng.integers(-3, 4, r).astype(float)
    if kind == "linear":
        components = [np.outer(x, x) for x in X.T]
    elif kind == "cubic":
        components = [(1.0 + np.outer(x, x)) ** 3 for x in X.T]
    else:
        width = {"narrow": 0.1, "mixed": 0.2}.get(kind, 0.5)
        components = [rbf(x[:, None], width) for x in X.T]
        if kind == "mixed":
            components[::2] = [np.outer(x, x) for x in X.T[::2]]
    form = shared_form(components, y)
    return kind, form.parts, form.target


def knots_and_midpoints(path):
    """Return the values at which a path is usually checked: its knots and the middles of its segments."""
    middles = (path.values[1:] + path.values[:-1]) / 2.0
    return np.sort(np.concatenate([path.values, middles]))


def variation_point_rows(components, target, rho, u, xi, tolerance=1e-9):
    """Check stationarity, dual feasibility, complementarity and duality gap of maximal variation at (u, xi)."""
    multipliers = np.split(xi, np.cumsum([component.shape[0] for component in components])[:-1])
    values = [component @ u for component in components]
    levels = np.array([np.abs(value).max(initial=0.0) for value in values])
    sizes = np.array([np.abs(multiplier).sum() for multiplier in multipliers])
    pulled = np.sum(
        [component.T @ multiplier for component, multiplier in zip(components, multipliers, strict=True)], axis=0
    )
    aligned = np.array([value @ multiplier for value, multiplier in zip(values, multipliers, strict=True)])
    cost = 0.5 * float(target @ target)
    shares = np.minimum(1.0, rho / np.where(sizes > 0.0, sizes, 1.0))
    dual = target - np.sum(
        [
            s * component.T @ multiplier
            for s, component, multiplier in zip(shares, components, multipliers, strict=True)
        ],
        axis=0,
    )
    length = float(np.abs(target).max())
    return (
        Row(
            name="u = y - B'xi",
            value=float(np.abs(target - pulled - u).max()),
            scale=length,
            tolerance=tolerance,
            formula="max |y - sum B^l'xi^l - u|",
        ),
        Row(
            name="|xi^l|_1 <= rho",
            value=float(np.max(sizes - rho, initial=0.0)),
            scale=rho,
            tolerance=tolerance,
            formula="max (|xi^l|_1 - rho)",
        ),
        Row(
            name="complementarity",
            value=float((rho * levels - aligned).sum()),
            scale=cost,
            tolerance=tolerance,
            formula="sum rho |B^l u| - xi^l'B^l u",
        ),
        gap_row(
            (0.5 * float((u - target) @ (u - target)), rho * float(levels.sum())),
            (cost, -0.5 * float(dual @ dual)),
            tolerance,
        ),
    )


def l1_point_rows(Phi, y, zeta, a, b, zero_sum=True, tolerance=1e-9):
    """Return the subgradient conditions and the duality gap of the L1 substrate; the gap alone without 1'a = 0."""
    centred = y - y.mean()
    e = centred - Phi @ a
    e = e - e.mean()
    c = Phi.T @ e
    bound = float(c.max() - c.min()) / 2.0 if zero_sum else float(np.abs(c).max())
    share = 1.0 if bound <= zeta else zeta / bound
    gap = gap_row(
        (0.5 * float(e @ e), zeta * float(np.abs(a).sum())),
        (share * float(e @ centred), -0.5 * share**2 * float(e @ e)),
        tolerance,
        0.5 * float(centred @ centred),
    )
    return (*l1_rows(Phi, y, zeta, a, b, tolerance), gap) if zero_sum else (gap,)
