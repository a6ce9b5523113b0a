"""A solver that reports another point than it found."""

from types import SimpleNamespace

import numpy as np

import substrate.declare.solvers


def let_it_lie(monkeypatch, change):
    """Let ``change`` alter x and z of every answer; it is given the compiled program and the unit of x, too."""
    honest = substrate.declare.solvers.take_answer

    def take(problem, raw, program, chain, inverse, units):
        x, z = change(np.array(raw.x), np.array(raw.z), program, units.variables)
        status = {"s": raw.s, "status": raw.status, "obj_val": raw.obj_val, "solve_time": 0.0, "iterations": 0}
        return honest(problem, SimpleNamespace(x=x, z=z, **status), program, chain, inverse, units)

    monkeypatch.setattr(substrate.declare.solvers, "take_answer", take)


def report_values(monkeypatch, variable, values):
    """Let it report other values of one variable."""

    def change(x, z, program, unit):
        start = program.var_id_to_col[variable.id]
        x[start : start + variable.size] = np.ravel(values, order="F") / unit
        return x, z

    let_it_lie(monkeypatch, change)
