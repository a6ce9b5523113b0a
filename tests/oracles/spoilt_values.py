"""Values to refuse, or to take care with: entries, dates, numbers, read-only arrays, matrices and kernels."""

import numpy as np


def with_entry(values, entry, dtype=None):
    """Return a copy with another first entry in its fourth row."""
    changed = np.array(values, dtype=dtype)
    changed[(3,) + (0,) * (changed.ndim - 1)] = entry
    return changed


def dates(n):
    """Return one date for each row, which numpy would turn into numbers if asked."""
    return np.datetime64("2020-01-01") + np.arange(n)


def read_only(X):
    """Return a copy that cannot be written to."""
    X = X.copy()
    X.flags.writeable = False
    return X


def brief(value):
    """Return the name of a value in a test's name."""
    return repr(value)[:20]


#: What no positive number may be.
BAD_NUMBERS = [0, 0.0, -1.0, np.nan, np.inf, -np.inf, "1", "many", None, True, 1j, {}, [], 10**400]


def indefinite(n, smallest=-5.0):
    """Return a symmetric matrix with one eigenvalue far below nought."""
    rng = np.random.default_rng(9)
    Q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    K = (Q * np.r_[smallest, np.linspace(1.0, 2.0, n - 1)]) @ Q.T
    return (K + K.T) / 2.0


def raises(X, Z):
    """Return a kernel that fails."""
    raise ZeroDivisionError("no such luck")
