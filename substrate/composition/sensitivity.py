r"""The derivative of a machine's predictions in one of its parameters.

At a solution whose active constraints and kinks stay the same for small changes of the parameter :math:`\theta`, the
optimality conditions are smooth equations, and their derivative is a linear system (the implicit function theorem,
[Fiacco1983]_ theorem 3.2.2). For a quadratic program with active rows A,

.. math::

    \begin{bmatrix} P & A^T \\ A & 0 \end{bmatrix} \begin{bmatrix} \dot x \\ -\dot z \end{bmatrix} =
    \begin{bmatrix} \dot A^T z - \dot P x - \dot q \\ -\dot A x - \dot b \end{bmatrix} ,

and for a loss of every row (:mod:`substrate.composition.row_losses`), with :math:`2 p\, a + \ell'(f) = 0` off the kinks
and :math:`f_i = \tau_i` at them,

.. math::

    2 p\, \dot a_i + \ell_i'' \dot f_i = -\dot\ell_i' - 2 \dot p\, a_i \;\text{ or }\; \dot f_i = \dot\tau_i , \qquad
    \dot f = K \dot a + \dot b 1 , \qquad 1^T \dot a = 0 .

That needs strict complementarity: every inequality has either slack or a positive multiplier, every row is either at a
kink, with a subgradient inside its jump, or away from it. Where one of them is within a millionth of neither, the
derivative may differ from side to side, and none is returned. The numbers of a compiled machine are affine in its
parameters, so that differences of them are exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.composition.cone_program import ConeProgram
from substrate.composition.conic import StandardForm
from substrate.composition.polish import interior_point, polish
from substrate.composition.result import Further, KernelExpansion, Result
from substrate.composition.row_losses import RowLosses
from substrate.composition.terms import FittedPart, LinearPart
from substrate.errors import DeclarationError, SolverError

__all__ = ["Sensitivity", "differentiate"]

#: What the derivative rests on.
ASSUMES = (
    "the constraints and kinks that are active stay the same for small changes of the parameter (strict "
    "complementarity, checked to a millionth)"
)
#: Share of their size by which slacks and multipliers must differ from zero, one of each pair.
_STRICT = 1e-6
#: Relative step of the differences, exact for numbers that are affine in the parameter.
_STEP = 1e-7
#: Unknowns up to which the system of a compiled machine is solved, by its singular values.
_MOST = 2500
#: Singular values below this share of the largest one are zero, and what they leave open must not be read.
_SINGULAR, _OPEN = 1e-11, 1e-6


@dataclass(frozen=True, repr=False)
class Sensitivity:
    """The derivative of a solution in a parameter: of its coefficients, its fitted values and its predictions.

    ``assumes`` says in words what it rests on.
    """

    parameter: str
    expansions: tuple[KernelExpansion, ...]
    fitted: Mapping[str | None, tuple[KernelExpansion | FittedPart, ...]]
    assumes: str = ASSUMES

    def predict(self, X: Any) -> Any:
        """Return the derivative of the predictions at the rows of X, in the form of ``Result.predict``."""
        values = {
            name: np.asarray(np.sum([term.predict(X) for term in terms], axis=0)) for name, terms in self.fitted.items()
        }
        return values.get(None, values)

    def __repr__(self) -> str:
        return f"<Sensitivity: derivative in {self.parameter}, if {self.assumes}>"


def differentiate(machine: Any, result: Result, name: str) -> Sensitivity:
    """Return the derivative of a result of a machine in the parameter of this name."""
    with machine.lock:
        parameters = {parameter.name(): parameter for parameter in machine._parameters()}
        if name not in parameters:
            raise DeclarationError(f"the machine has no parameter {name!r}; it has {sorted(parameters)}")
        if parameters[name].size != 1:
            raise DeclarationError(
                f"the parameter {name!r} has {parameters[name].size} entries; the derivative is in one number, so give "
                "each entry that matters a parameter of its own"
            )
        before = [parameter.value for parameter in parameters.values()]
        try:
            for key, parameter in parameters.items():
                parameter.save_value(result.parameters[key])
            if machine._row_method is not None and isinstance(machine._row_method.read()[1], RowLosses):
                return _by_rows(machine, result, name, parameters[name])
            return _by_conditions(machine, result, name, parameters[name])
        finally:
            for parameter, value in zip(parameters.values(), before, strict=True):
                parameter.save_value(value)


def _refusal(what: str) -> SolverError:
    return SolverError(
        f"the derivative is not known: {what}, so that it may differ from side to side (strict complementarity fails); "
        "change the parameter slightly, or compare two solutions"
    )


def _by_rows(machine: Any, result: Result, name: str, parameter: Any) -> Sensitivity:
    expansion = result.expansions[0]
    s, a, b, value = expansion.substrate, expansion.coefficients, float(expansion.b), np.asarray(parameter.value)
    p, losses = machine._row_method.read()
    step = _STEP * max(abs(float(value)), 1e-3)
    sides = []
    for sign in (1.0, -1.0):
        parameter.save_value(value + sign * step)
        sides.append(machine._row_method.read())
    parameter.save_value(value)
    if any(side is None or side[1].places.shape != losses.places.shape for side in sides):
        raise _refusal(f"the losses have another form beside {name} = {float(value):g}")
    (p_over, over), (p_under, under) = sides
    f = s.gram.product(a) + b
    at_kink, place = _kinks(losses, f, -2.0 * p * a)
    rate = (p_over - p_under) / (2.0 * step)
    slopes = (over.slopes(f) - under.slopes(f)) / (2.0 * step)
    rows = np.arange(s.n)
    moves = np.zeros(s.n)
    if losses.places.shape[1]:
        moves = (over.places[rows, place] - under.places[rows, place]) / (2.0 * step)
    curvature = np.where(at_kink, 0.0, losses.curvatures(f))
    K = s.gram.matrix
    # [D K + 2p, D 1; 1', 0] off the kinks, [K, 1] at them
    weights = np.where(at_kink, 1.0, curvature)
    system = np.zeros((s.n + 1, s.n + 1))
    system[: s.n, : s.n] = weights[:, None] * K + np.diag(np.where(at_kink, 0.0, 2.0 * p))
    system[: s.n, s.n] = weights
    system[s.n, : s.n] = 1.0
    right = np.append(np.where(at_kink, moves, -slopes - 2.0 * rate * a), 0.0)
    if not s.bias:
        system, right = system[: s.n, : s.n], right[: s.n]
    solution = np.linalg.lstsq(system, right, rcond=1e-14)[0]
    remainder = float(np.abs(system @ solution - right).max()) / (float(np.abs(right).max()) or 1.0)
    if remainder > _OPEN or (s.bias and not weights.any()):
        raise _refusal("the system of the derivative has no solution")
    change = solution[: s.n]
    return _sensitivity(result, name, [_derivative(expansion, change, float(solution[s.n]) if s.bias else 0.0)], {})


def _kinks(losses: RowLosses, f: Array, g: Array) -> tuple[Array, Array]:
    """Return which rows are at a kink, and the number of the nearest breakpoint; refuse what is neither."""
    n, count = losses.n, losses.places.shape[1]
    if not count:
        return np.zeros(n, dtype=bool), np.zeros(n, dtype=np.intp)
    rows = np.arange(n)
    size = float(np.abs(f).max()) + float(np.ptp(f)) or 1.0
    place = np.abs(losses.places - f[:, None]).argmin(axis=1)
    distance = np.abs(losses.places[rows, place] - f)
    below, above = losses.below[rows, place], losses.above[rows, place]
    jump = above - below
    reach = float(np.abs(losses.above).max() + np.abs(losses.below).max()) or 1.0
    has_jump = jump > _STRICT * reach
    inside = np.minimum(g - below, above - g) > _STRICT * reach
    at_kink = has_jump & inside
    near = distance <= _STRICT * size
    unclear = np.flatnonzero(near & ~at_kink & ((losses.curvature.max(axis=1) > 0.0) | has_jump))
    if unclear.size:
        raise _refusal(f"row {unclear[0]} is within a millionth of a kink of its loss and not held there")
    return at_kink, place


def _by_conditions(machine: Any, result: Result, name: str, parameter: Any) -> Sensitivity:
    form = StandardForm(machine.problem.get_problem_data("CLARABEL")[0]["param_prob"], "CLARABEL")
    if form.bounded or not {kind for kind, _, _ in form.cones} <= {"Zero", "NonNeg"}:
        raise DeclarationError(
            "the derivative in a parameter is known for machines that are quadratic programs, and for losses that are "
            "sums over the rows with squared_norm alone; compare two solutions instead"
        )
    value = np.asarray(parameter.value)
    numbers = form.numbers()
    step = max(abs(float(value)), 1.0) * 2.0**-4
    over, under = (_numbers_at(form, parameter, value + sign * step) for sign in (1.0, -1.0))
    parameter.save_value(value)
    dP, dq, dA, db = ((first - second) / (2.0 * step) for first, second in zip(over, under, strict=True))
    program = ConeProgram.of(numbers, form.cones)
    start = interior_point(program, 1e-12)
    if start is None:
        raise SolverError("the derivative is not known: the quadratic program could not be solved again")
    x, z = polish(program, *start)
    _check_same(machine, form, x, result)
    linear = program.linear
    slack, weights = (program.A @ x + program.b)[linear], z[linear]
    sizes = np.maximum(slack, 0.0) / (1.0 + float(np.abs(x).max())), weights / (1.0 + float(np.abs(z).max()))
    unclear = np.flatnonzero(np.maximum(*sizes) <= _STRICT)
    if unclear.size:
        raise _refusal(f"{unclear.size} of {linear.size} inequalities have neither slack nor a multiplier")
    active = np.concatenate([program.equal, linear[weights > np.maximum(slack, 0.0)]])
    n, m = x.size, active.size
    if n + m > _MOST:
        raise SolverError(f"the derivative needs a system of {n + m} unknowns, and {_MOST} are the most")
    A = program.A[active].toarray()
    system = np.block([[program.P.toarray(), A.T], [A, np.zeros((m, m))]])
    right = np.concatenate([dA.T @ z - dP @ x - dq, -(dA @ x + db)[active]])
    U, singular, Vt = np.linalg.svd(system)
    kept = singular > _SINGULAR * singular[0]
    solution = Vt[kept].T @ ((U[:, kept].T @ right) / singular[kept])
    if float(np.abs(system @ solution - right).max()) > _OPEN * (float(np.abs(right).max()) or 1.0):
        raise _refusal("the system of the derivative has no solution")
    changes = [_read_change(compiled, form, solution[:n]) for compiled in machine._compiled]
    open_directions = Vt[~kept][:, :n]
    for direction in open_directions:
        for compiled in machine._compiled:
            move, bias = _read_change(compiled, form, direction)
            if float(np.abs(compiled.span.product(move) + bias).max()) > _OPEN:
                raise _refusal("the conditions do not determine the fitted values")
    expansions = [
        _derivative(expansion, move, bias, compiled)
        for expansion, compiled, (move, bias) in zip(result.expansions, machine._compiled, changes, strict=True)
    ]
    weights_of_parts = {}
    for part in machine.outputs.parts():
        first = form.columns[part.weights.id]
        values = solution[first : first + part.weights.size]
        weights_of_parts[id(part)] = values.reshape(part.weights.shape, order="F")
    return _sensitivity(result, name, expansions, weights_of_parts)


def _numbers_at(form: StandardForm, parameter: Any, value: Array) -> tuple[Any, ...]:
    parameter.save_value(value)
    return form.numbers()


def _read_change(compiled: Any, form: StandardForm, dx: Array) -> tuple[Array, Any]:
    """Return the coefficients and the bias of a change of the program's variables, which they are linear in."""
    leaves = compiled.leaves()
    before = [leaf.value for leaf in leaves]
    try:
        for leaf in leaves:
            start = form.columns[leaf.id]
            leaf.save_value(dx[start : start + leaf.size].reshape(leaf.shape, order="F"))
        return compiled.coefficients(), compiled.bias()
    finally:
        for leaf, value in zip(leaves, before, strict=True):
            leaf.save_value(value)


def _check_same(machine: Any, form: StandardForm, x: Array, result: Result) -> None:
    """Refuse where the machine has another solution than the result at its parameters."""
    for compiled, expansion in zip(machine._compiled, result.expansions, strict=True):
        a, b = _read_change(compiled, form, x)
        spread = float(np.ptp(expansion.f)) + float(np.abs(expansion.e).max()) or 1.0
        if float(np.abs(compiled.span.product(a) + b - expansion.f).max()) > 1e-3 * spread:
            raise SolverError(
                "the machine has another solution at these parameters than this result, so that its data were changed "
                "or its optimum is not unique; solve it again"
            )


def _derivative(expansion: KernelExpansion, a: Array, b: Any, compiled: Any = None) -> KernelExpansion:
    """Return the derivative of an expansion, in the same form; it has no norm of its own."""
    s = expansion.substrate
    further: tuple[Further, ...] = ()
    if compiled is None:
        f, own = s.gram.product(a) + b, a
    else:
        f = compiled.span.product(a) + b
        own, *rest = compiled.span.parts(a)
        further = tuple(map(Further.of, compiled.span.readings[1:], rest))
    return KernelExpansion(
        substrate=s,
        alpha=s.signs * own,
        b=b,
        e=-f if s.task == "regression" else -s.y * f,
        f=f,
        squared_norm=float("nan"),
        maximal_variation=np.full(len(s.components), np.nan),
        further=further,
    )


def _sensitivity(
    result: Result, name: str, expansions: list[KernelExpansion], weights: Mapping[int, Array]
) -> Sensitivity:
    derivative = {id(old): new for old, new in zip(result.expansions, expansions, strict=True)}
    fitted: dict[str | None, tuple[KernelExpansion | FittedPart, ...]] = {}
    for output, terms in result.fitted.items():
        changed: list[KernelExpansion | FittedPart] = []
        for term in terms:
            if isinstance(term, KernelExpansion):
                changed.append(derivative[id(term)])
            elif isinstance(term, FittedPart) and isinstance(term.part, LinearPart):
                changed.append(FittedPart(term.part, weights[id(term.part)]))
            else:
                raise DeclarationError(
                    f"the derivative of an output with a {type(term).__name__} is not known; ask that of its substrates"
                )
        fitted[output] = tuple(changed)
    return Sensitivity(parameter=name, expansions=tuple(expansions), fitted=fitted)


Result._differentiator = staticmethod(differentiate)
