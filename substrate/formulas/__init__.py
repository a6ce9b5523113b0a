"""Functions as formulas: one description, from which values, bounds on rounding and graphs of ONNX follow.

A formula is made of :class:`~substrate.formulas.nodes.Node` values by ordinary operators, so that whatever is written
for exact arithmetic, as ``exact_formula`` of every kernel is, is a formula at once.
:class:`~substrate.formulas.program.Program` puts its operations in order; a bound on what floating point loses
(:mod:`~substrate.formulas.rounding_bound`) and the writer of ONNX read that and nothing else.
"""

from substrate.formulas.nodes import Node, Points, constant, inputs, kernel_formula, total
from substrate.formulas.program import Output, Program
from substrate.formulas.rounding_bound import DOUBLE, SINGLE, RoundingBound, bound_rounding

__all__ = [
    "DOUBLE",
    "SINGLE",
    "Node",
    "Output",
    "Points",
    "Program",
    "RoundingBound",
    "bound_rounding",
    "constant",
    "inputs",
    "kernel_formula",
    "total",
]
