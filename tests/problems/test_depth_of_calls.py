"""Rows in memory go straight to the routine that does the work: few functions of the package are on the way."""

import sys

import numpy as np

from problems import LSSVMRegressor
from substrate.kernels import RBF
from substrate.streaming.rows import BLOCK_ROWS

RNG = np.random.default_rng(39)
N = BLOCK_ROWS + 500
X = RNG.normal(size=(N, 3))
Y = np.sin(X[:, 0])
WEIGHTS = RNG.uniform(0.5, 2.0, size=N)


def recorded(routine, calls):
    """Return the routine, which appends the functions of the package that it is called from, outermost first."""

    def called(*arguments, **options):
        own, frame = [], sys._getframe(1)
        while frame is not None:
            if frame.f_globals.get("__name__", "").partition(".")[0] in ("substrate", "problems"):
                own.insert(0, f"{frame.f_globals['__name__']}.{frame.f_code.co_name}")
            frame = frame.f_back
        calls.append(own)
        return routine(*arguments, **options)

    return called


def test_the_factorisation_is_five_calls_away(monkeypatch):
    from scipy.linalg import lapack

    calls = []
    monkeypatch.setattr(lapack, "dpotrf", recorded(lapack.dpotrf, calls))
    LSSVMRegressor(RBF(1.0)).fit(X[:200], Y[:200])
    assert calls
    assert max(len(own) for own in calls) <= 5, calls
