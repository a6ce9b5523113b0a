"""Laws of every page: a disciplined problem with labels, solved anew for other values, checked in every entry."""

import inspect
import warnings

import numpy as np
import pytest
from every_model import MODULES, small_arguments
from numpy.testing import assert_allclose

from problems import confined_fusion
from substrate.operators import Gram

#: Weights that leave only a constant of so few rows, so that a twentieth of them is given.
LARGE = ("zeta", "rho", "xi")
#: What is measured in the units of the target.
IN_UNITS = ("zeta", "rho", "xi", "c", "delta", "norm", "noise", "y_val")
#: Its weights of the rows follow from a fit at the gamma that is declared.
REWEIGHTED = "weighted_ls_svm"
CASES = [
    pytest.param(module, case, id=f"{name}: {case.label}")
    for name, module in MODULES.items()
    for case in module.DEMONSTRATION.cases
]
over_cases = pytest.mark.parametrize(("module", "case"), CASES)


def given(case):
    """A small matrix, a target or labels, and the parameters of a case."""
    arguments = small_arguments(case, 12, seed=3)
    small = {k: 0.05 * v if k in LARGE and v >= 10.0 else v for k, v in arguments.items() if k not in ("K", "y")}
    return arguments["K"], arguments["y"], small


def leaves(declared):
    """The variables, and the multipliers of a page with a weight vector w, which are its support values."""
    variables = [variable for variable in declared.problem.variables() if variable.name() != "components"]
    if not any(variable.name().startswith("w") for variable in variables):
        return variables
    return [*variables, *(dual for one in declared.problem.constraints for dual in one.dual_variables)]


def closed(module, case, K, y, parameters):
    """The closed form where there is one, to agree with."""
    if not hasattr(module, "closed_form"):
        return None
    known = inspect.signature(module.closed_form).parameters
    return module.closed_form(K, y, **{k: v for k, v in {**parameters, **case.choice}.items() if k in known})


@over_cases
def test_it_is_convex_by_the_rules_in_its_parameters_and_solved_by_cvxpy_too(module, case):
    K, y, parameters = given(case)
    declared = module.declare(K, y, **parameters, **case.choice)
    problem = declared.problem
    assert problem.is_dcp()
    assert problem.is_dpp()
    assert set(problem.parameters()) == set(declared.parameters.values())
    assert all(constraint.label for constraint in problem.constraints) or module is confined_fusion
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of what Clarabel solves less accurately than it is asked for
        problem.solve(solver="CLARABEL")
    assert declared.solver_record is None
    certificate = declared.certificate()
    assert f"cvxpy directly: {problem.status}" in str(certificate)
    assert certificate.holds or not problem.is_qp() or problem.status == "optimal_inaccurate", str(certificate)


@over_cases
def test_another_value_is_solved_without_declaring_anew(module, case):
    K, y, parameters = given(case)
    declared = module.declare(K, y, **parameters, **case.choice).solve()
    for name, parameter in declared.parameters.items():
        argument = name.removeprefix("inverse_")
        if argument not in parameters or module.__name__.endswith(REWEIGHTED):
            continue
        other = parameters | {argument: 0.4 * parameters[argument]}
        fresh = module.declare(K, y, **other, **case.choice).solve()
        before, parameter.value = parameter.value, fresh.parameters[name].value
        assert not declared.certificate().holds, "the old point does not solve the new problem"
        certificate = declared.solve().certificate(against=closed(module, case, K, y, other))
        assert certificate.holds, str(certificate)
        assert_allclose(declared.problem.value, fresh.problem.value, rtol=1e-5)
        parameter.value = before


@over_cases
def test_the_certificate_sees_a_change_of_any_entry_and_sign(module, case):
    K, y, parameters = given(case)
    declared = module.declare(K, y, **parameters, **case.choice).solve()
    assert declared.certificate().holds
    unseen = []
    for leaf in leaves(declared):
        original = np.array(leaf.value, dtype=float)
        size = max(np.abs(original).max(), 1.0)
        for place in range(0, original.size, max(original.size // 4, 1)):
            for change in (1e-2, -1e-2):
                changed = original.copy()
                changed.flat[place] += change * size
                leaf.save_value(changed)
                if declared.certificate().holds:
                    unseen.append((str(leaf), place, change))
        leaf.save_value(original)
    assert not unseen
    assert declared.certificate().holds


@over_cases
def test_a_gram_object_serves_as_well_and_stays_as_it_is(module, case):
    K, y, parameters = given(case)
    gram = Gram.from_matrix(K.copy())
    found = module.declare(gram, y, **parameters, **case.choice).solve().solution()
    for name, value in module.declare(K, y, **parameters, **case.choice).solve().solution().items():
        assert_allclose(found[name], value, rtol=1e-6, atol=1e-9)
    assert_allclose(gram.matrix, K, rtol=0.0, atol=0.0)


@over_cases
@pytest.mark.parametrize("factor", [1e8, 1e-8])
def test_units_of_the_target(module, case, factor):
    K, y, parameters = given(case)
    if case.labels:
        pytest.skip("labels have no unit")
    scaled = {name: factor * value if name in IN_UNITS else value for name, value in parameters.items()}
    declared = module.declare(K, factor * y, **scaled, **case.choice).solve()
    certificate = declared.certificate(against=closed(module, case, K, factor * y, scaled))
    assert certificate.holds, str(certificate)
    plain = module.declare(K, y, **parameters, **case.choice).solve()
    assert_allclose(declared.problem.value / factor**2, plain.problem.value, rtol=1e-4, atol=1e-9)


@over_cases
@pytest.mark.parametrize("constant", [3.7, -1e6])
def test_a_constant_target_is_the_bias(module, case, constant):
    K, y, parameters = given(case)
    if case.labels or {"y_val", "norm"} & set(inspect.signature(module.declare).parameters):
        pytest.skip("labels, validation rows and norms are not constant")
    declared = module.declare(K, np.full(y.size, constant), **parameters, **case.choice).solve()
    assert declared.certificate().holds, str(declared.certificate())
    if "bias" in declared.values and "c" not in parameters:
        assert_allclose(declared.bias, constant, rtol=1e-6, atol=1e-9)
