"""Inputs by backward selection: the order of naive refits, bounds of every set, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import LSSVMRegressorCV
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Componentwise

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (50, 4))
Y = np.sin(2.0 * X[:, 2]) + 0.4 * X[:, 0] + 0.05 * RNG.standard_normal(50)


def naive_order(X, y, criterion):
    """Backward selection by fits on columns, one removal after the other."""
    inputs, removed, path = list(range(X.shape[1])), [], []
    path.append(LSSVMRegressorCV(cv=criterion).fit(X, y).criterion_)
    while len(inputs) > 1:
        values = {
            j: LSSVMRegressorCV(cv=criterion).fit(X[:, [k for k in inputs if k != j]], y).criterion_ for j in inputs
        }
        worst = min(values, key=values.get)
        inputs.remove(worst)
        removed.append(worst)
        path.append(values[worst])
    return [*inputs, *removed[::-1]], path[::-1]


@pytest.mark.parametrize("criterion", ["evidence", "loo"])
def test_the_order_is_that_of_refits(criterion):
    ranking = LSSVMRegressorCV().rank_inputs(X, Y, criterion=criterion)
    order, path = naive_order(X, Y, criterion)
    assert_array_equal(ranking.order, order)
    assert_allclose(ranking.criterion, path, rtol=1e-9)
    assert_array_equal(ranking.selected, [0, 2])
    assert (ranking.criterion_lower_bound <= ranking.criterion).all()
    assert ranking.is_proved.all()
    assert ranking.certificate.holds, ranking.certificate
    best = LSSVMRegressorCV(cv=criterion).fit(X[:, [0, 2]], Y)
    assert_allclose(ranking.gamma[1], best.gamma_, rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (LSSVMRegressorCV(RBF(1.0).on(0)), {}, DeclarationError, "is bound to some of them"),
        (LSSVMRegressorCV(RBF((1.0, 2.0, 1.0, 1.0))), {}, DeclarationError, "is bound to some of them"),
        (LSSVMRegressorCV(Componentwise(RBF(1.0)) + RBF(1.0).on(1)), {}, DeclarationError, "is bound to some of them"),
        (LSSVMRegressorCV("precomputed"), {}, DeclarationError, "or to rows"),
        (LSSVMRegressorCV(), {"criterion": "folds"}, DeclarationError, "criterion must be one of loo, gcv, evidence"),
    ],
)
def test_what_cannot_be_ranked_is_refused(model, options, error, message):
    with pytest.raises(error, match=message):
        model.rank_inputs(X, Y, **options)
