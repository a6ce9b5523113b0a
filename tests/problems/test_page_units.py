"""Every page in another unit of y is the same problem, and says how large the quantities are that it has."""

import numpy as np
import pytest
from every_model import arguments_of, over_modules

from substrate.errors import DataError
from substrate.solvers import Units, solve_problem


def solved_values(problem, units):
    solve_problem(problem, lambda _: 0.0, "CLARABEL", units=(units,))
    return {variable.name(): variable.value for variable in problem.variables()}


@over_modules
def test_in_the_unit_of_the_page_the_problem_is_the_same(module):
    K, y, parameters = arguments_of(module)
    declared = module.declare(K, y, **parameters)
    unit = declared.unit()
    assert unit > 0.0
    assert unit != 1.0
    own, other = (solved_values(declared.problem, units) for units in (Units(), Units(unit, unit * unit)))
    fitted = [name for name in own if name in ("e", "b", "e_val", "t")]
    assert fitted or "alpha" in own
    for name in fitted or ["alpha"]:
        np.testing.assert_allclose(other[name], own[name], atol=2e-5 * max(1.0, np.abs(own[name]).max()))


@over_modules
def test_units_are_those_of_quantities_the_page_has(module):
    K, y, parameters = arguments_of(module)
    declared = module.declare(K, y, **parameters)
    units = declared.units()
    assert all(np.isfinite(size) and size > 0.0 for size in units.values())
    assert set(units) & set(declared.values) or not units


@over_modules
def test_targets_that_solvers_cannot_square_are_refused(module):
    if module.DEMONSTRATION.cases[0].labels:
        pytest.skip("labels have a size")
    K, y, parameters = arguments_of(module)
    for factor in (1e60, 1e-60, 1e200):
        if "y_val" in parameters:
            parameters["y_val"] = factor * y.max() * np.sign(parameters["y_val"])
        with pytest.raises(DataError, match=r"max\|y\| is .* measure y in other units"):
            module.declare(K, factor * y, **parameters)
