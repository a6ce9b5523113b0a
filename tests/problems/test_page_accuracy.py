"""Every page of a paper bounds its fitted values, or says why not; the closed form never contradicts the bound."""

import inspect
import warnings
from dataclasses import replace

import numpy as np
import pytest

from problems import weighted_ls_svm
from problems.command_line.verify import problem_modules
from substrate.certificate import NO_BOUND, UNPOLISHED

CASES = [
    pytest.param(module, case, id=f"{name}: {case.label}")
    for name, module in problem_modules().items()
    for case in module.DEMONSTRATION.cases
]


def small(case):
    """A fourth of the rows, which is enough for a law, but no fewer than every 32nd."""
    return replace(case, every=min(4 * case.every, 32))


def solved(module, case):
    case = small(case)
    arguments = case.arguments_on_data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of points that are too few, which is as it should be here
        return module.declare(**arguments, **case.choice).solve(), arguments


def distance(module, declared, arguments, case):
    """Root mean square, with the weights of the fit, of the errors less the errors of the closed form."""
    known = inspect.signature(module.closed_form).parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = module.closed_form(**{k: v for k, v in {**arguments, **case.choice}.items() if k in known})
    ours, (fitted,) = declared.solution(), [v.size for v in declared.problem.variables() if v.name() == "e"] or [0]
    both = fitted > arguments["y"].size  # validation rows are fitted too
    stacked = ("errors", "validation_errors") if both else ("errors",)
    difference = np.concatenate([ours[name] - exact[name] for name in stacked])
    if "about their mean" in declared.certificate().promise:
        difference = difference - difference.mean()
    weights = np.ones(difference.size)
    if module is weighted_ls_svm:
        weights = exact["support_values"] / (arguments["gamma"] * exact["errors"])
    return float(np.sqrt(weights @ difference**2 / weights.sum()))


@pytest.mark.parametrize(("module", "case"), CASES)
def test_the_bound_comes_first_and_is_contradicted_neither_at_good_points_nor_at_bad_ones(module, case):
    declared, arguments = solved(module, case)
    certificate = declared.certificate()
    if certificate.answer is None:
        assert dict(certificate.record)[NO_BOUND]
        assert "declaration does not state" not in certificate.promise
        return
    assert certificate.rows[0] is certificate.answer
    assert certificate.answer.tolerance == UNPOLISHED
    assert certificate.answer.passes, str(certificate)
    if not hasattr(module, "closed_form"):
        return
    assert distance(module, declared, arguments, case) <= certificate.accuracy + 1e-12 * certificate.spread
    rng = np.random.default_rng(0)
    duals = [dual for constraint in declared.problem.constraints for dual in constraint.dual_variables]
    for size in (1e-6, 1e-2):
        for leaf in (*declared.problem.variables(), *duals):
            value = np.asarray(leaf.value, dtype=float)
            leaf.save_value(value + size * np.abs(value).mean() * rng.normal(size=value.shape))
        assert distance(module, declared, arguments, case) <= declared.certificate().accuracy
    assert not declared.certificate().answer.passes
