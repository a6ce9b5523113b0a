"""The parts of a program by cvxpy's tensors, summed at some values, are the numbers that a solver is given there."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import Machine, Substrate
from substrate.errors import DeclarationError
from substrate.fusion.affine_terms import AffineTerms
from substrate.fusion.program_numbers import quadratic_parts, weighs_all_squares
from substrate.kernels import RBF


def machine(bound=None):
    rng = np.random.default_rng(0)
    s = Substrate(RBF(1.0), rng.normal(size=(7, 2)), rng.normal(size=7))
    zeta, tau, other = (cp.Parameter(nonneg=True, name=name, value=0.7) for name in ("zeta", "tau", "other"))
    cost = 0.5 * cp.sum_squares(s.e) + zeta * cp.norm1(s.alpha) + 0.5 * tau * s.squared_norm + other * cp.max(s.f())
    rules = [] if bound is None else [s.f() <= bound]
    problem = Machine(s, minimize=cost, subject_to=rules).problem
    return cp.Problem(problem.objective, problem.constraints), [zeta, tau]


@pytest.mark.parametrize("values", [(1.0, 1.0), (0.3, 5.1), (0.0, 2.5)])
def test_the_parts_add_up_to_what_a_solver_is_given(values):
    problem, parameters = machine()
    constant, *steps = quadratic_parts(problem, parameters)
    for parameter, value in zip(parameters, values, strict=True):
        parameter.value = value
    data, _, _ = problem.get_problem_data("CLARABEL", solver_opts={"use_quad_obj": True})
    for name, key in (("P", "P"), ("q", "c"), ("A", "A"), ("b", "b")):
        total = getattr(constant, name) + sum(
            value * getattr(step, name) for value, step in zip(values, steps, strict=True)
        )
        expected = data[key]
        dense = [part.toarray() if hasattr(part, "toarray") else part for part in (total, expected)]
        assert_allclose(dense[0], dense[1], rtol=1e-14, atol=1e-15)
    assert [step.has_squares for step in steps] == [False, True]
    assert not any(step.has_rows for step in steps)
    assert not weighs_all_squares(constant, steps[1])
    assert constant.equalities == data["dims"].zero


def test_terms_of_parameters_in_constraints_are_refused():
    bound = cp.Parameter(name="bound", value=1.0)
    problem, _ = machine(bound)
    with pytest.raises(DeclarationError, match="'bound' enters a constraint"):
        AffineTerms.of(problem, [bound])
