"""A stack of machines for a table: what is refused, and every command with its model."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from problems import StackedLSSVMRegressor, TabularRegressor
from substrate.errors import DeclarationError

RNG = np.random.default_rng(12)
N = 44
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * RNG.normal(size=N)
COLUMNS = {"u": X[:, 0], "v": X[:, 1]}


def test_what_a_stack_cannot_do_is_refused_before_the_fit():
    for given, message in (
        ({"group": "site"}, "chooses by single rows left out; with a group or time take model='lssvm'"),
        ({"time": True}, "take model='lssvm'"),
        ({"gamma": 2.0}, "chooses gamma; to give one, take model='lssvm'"),
    ):
        with pytest.raises(DeclarationError, match=message):
            TabularRegressor("stack", **given).fit({**COLUMNS, "site": np.arange(N) % 6}, Y)


def test_the_fit_is_that_of_python_and_its_refit_holds_the_machines():
    model = TabularRegressor("stack", max_evaluations=4, validation=0.25).fit(COLUMNS, Y)
    judged, saved = model.judged_, model.estimator_
    by_hand = StackedLSSVMRegressor(kernels="families").fit(judged.X, judged.y)
    stack = judged.machine
    assert_array_equal(stack.predict(judged.X_val), by_hand.predict(judged.X_val))
    used = [number for number, weight in enumerate(stack.stack_weights_) if weight > 0.0]
    assert saved.kernels == [stack.estimators_[number].kernel_ for number in used]
    assert saved.support_.size == N
    assert saved.certificate_.holds
    assert model.preparation_.refitted


def test_without_rows_held_out_folds_judge():
    model = TabularRegressor("stack", max_evaluations=0).fit(COLUMNS, Y)
    assert model.quality_.rows == "rows, left out in folds"
    assert model.quality_.caveat == "these rows also chose the kernel and gamma"
    guarantee = model.interval_guarantee(0.8)
    assert guarantee.method == "nested"
    assert guarantee.broken == ("the inputs were standardised by these rows",), "the choice of kernels is repeated"
