"""Robust weights and pruning written down naively: one row, one fit, one removal at a time."""

import bordered_system
import numpy as np


def quantile(values, level, counts=None):
    """Of the list in which every value occurs as often as it counts; the mean of neighbours where two fit."""
    counts = np.ones(len(values), dtype=int) if counts is None else counts
    every = sorted(v for v, count in zip(values, counts, strict=True) for _ in range(count))
    place = level * len(every)
    whole = round(place)
    if abs(place - whole) < 1e-9:
        return 0.5 * (every[max(whole - 1, 0)] + every[min(whole, len(every) - 1)])
    return every[int(np.ceil(place)) - 1]


def hampel(errors, scale):
    weights = []
    for e in errors:
        r = abs(e / scale)
        v = 1.0 if r <= 2.5 else (3.0 - r) / (3.0 - 2.5) if r <= 3.0 else 1e-4
        weights.append(max(v, 1e-4))
    return np.array(weights)


def algorithm_1(K, y, gamma):
    """Return weights, support values and bias: a plain fit, a scale, weights, a weighted fit."""
    alpha, _ = bordered_system.solve(K, y, np.full(len(y), 1.0 / gamma))
    e = alpha / gamma
    scale = (quantile(e, 0.75) - quantile(e, 0.25)) / (2 * 0.6745)
    v = hampel(e, scale)
    return v, *bordered_system.solve(K, y, 1.0 / (gamma * v))


def prune(K, Y, gamma, v, share=0.05, fewest=2, count=None, reweight=False):
    """Return every machine on the way down, by a separate fit: rows, alpha and b."""
    rows, path = np.arange(len(Y)), []
    while True:
        block = K[np.ix_(rows, rows)]
        if reweight:
            _, alpha, b = algorithm_1(block, Y[rows], gamma)
        else:
            alpha, b = bordered_system.solve(block, Y[rows], 1.0 / (gamma * v[rows]))
        path.append((rows, alpha, b))
        if rows.size <= fewest:
            return path
        leaving = count or max(1, int(share * rows.size))
        leaving = min(leaving, rows.size - fewest)
        size = np.abs(alpha) if alpha.ndim == 1 else np.sqrt((alpha**2).sum(axis=1))
        gone = rows[np.argsort(size, kind="stable")[:leaving]]
        rows = np.array([row for row in rows if row not in gone])
