"""Every estimator on wild data: no certificate that holds is contradicted by a proof in ball arithmetic."""

import warnings

import pytest

pytest.importorskip("flint", reason="a proof needs python-flint")
from wild_machines import ESTIMATORS, wild_machine

from substrate.errors import SubstrateError


def check_promises(seeds):
    """The law for every seed; returns how many fits held, how many had a bound, and how many there were."""
    held = bounded = made = 0
    for seed in seeds:
        wild = wild_machine(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model = wild.model.fit(wild.X, wild.y, **wild.fit_options)
            except SubstrateError:  # refused, with a reason
                assert not hasattr(wild.model, "support_values_"), (seed, str(wild))
                continue
            told = [str(one.message) for one in caught]
            certificate, again = model.certificate_, model.certify(wild.X, wild.y, **wild.fit_options)
            proof = model.prove(wild.X, wild.y, **wild.fit_options)
        assert not [one for one in caught if issubclass(one.category, RuntimeWarning)], (seed, str(wild))
        made += 1
        # a certificate that fails always warns, and the first word of either is the answer
        assert certificate.holds or any("not hold" in one or "raise" in one for one in told), (seed, told, str(wild))
        if certificate.answer is None or again.answer is None:
            continue
        bounded, held = bounded + 1, held + certificate.holds
        assert certificate.rows[0] is certificate.answer
        # exact kernel values part rows that tie as computed: a proof of maximal variation knows no more than their root
        coarse = wild.model._page.endswith("maximal_variation") and proof.accuracy <= 1e-3 * proof.scale
        for one in (certificate, again):
            assert proof.proved or coarse or not one.answer.passes, (seed, one.accuracy, str(proof), str(wild))
    return held, bounded, made


def test_no_promise_is_broken():
    held, bounded, made = check_promises(range(len(ESTIMATORS)))  # one fit of every estimator
    assert made > 0.85 * len(ESTIMATORS)
    assert held > 0.5 * bounded


def test_every_estimator_is_tried():
    assert {type(wild_machine(seed).model) for seed in range(len(ESTIMATORS))} == set(ESTIMATORS)
