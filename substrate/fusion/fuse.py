r"""Fusion of training and validation: parameters of a machine or of any convex problem, chosen with a proof.

.. math::

    \min_{\theta \in B} \; v(x_\theta) \quad \text{where} \quad
    x_\theta = \arg\min_{x \in S(\theta)} \; \varphi_0(x) + \sum_i \theta_i \, \varphi_i(x) .

[Pelckmans2005]_ eq. (28): the machine's optimality conditions are constraints of a problem in its parameters as well.
The paper turns it into (29) and calls that convex; it is not, see :mod:`problems.fused_maximal_variation`. Here (28)
itself is solved: one search over simplices of the parameters (:mod:`substrate.fusion.search`) with a bound on each
states how far from the global optimum the answer can be. The bound comes from chords between solved points
(:mod:`substrate.fusion.chord`) where the squares of a program determine its predictions and validation errors are
squared, and the universal bound elsewhere (:mod:`substrate.fusion.universal`).

*Proofs as files* hold the points and cells of a search, which are bounded again from the problem that the checker
declares. Nothing else in a file is believed. Whatever its points are, the bounds that follow from them are true:
feasibility, multipliers and objectives are computed again. The cells cover the box by construction, since a file has
only where each was cut.
"""

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from substrate.arrays import Array, positive
from substrate.certificate import PROVED, Certificate, Row
from substrate.declare.program import Point
from substrate.errors import CertificateError, DeclarationError, SolverError
from substrate.fusion.chord import NOT_KNOWN
from substrate.fusion.result import FusedPath, Fusion
from substrate.fusion.search import (
    Limits,
    Progress,
    SearchResult,
    Theta,
    along,
    cover,
    describe_met,
    minimise,
)
from substrate.fusion.task import FusionTask, complete_box, declare, families_of
from substrate.progress import LateProgress

__all__ = [
    "CheckedProof",
    "check_proof",
    "fuse",
]

#: Largest number of solves, for one parameter and for several.
_BUDGETS = (500, 2000)
#: Solves that chords have at least; a quarter of the budget is more as a rule.
_FEW = 100
#: How far the objective at the chosen point may be above its smallest value, relative.
_OPTIMAL = 1e-6
#: An error below this share of the largest one counts as none, for a problem.
_NOTHING = 1e-6
#: By how much the gap of chords is widened where points are not known well enough for a smaller one.
_WIDER = 10.0
#: The assumption behind the bound, for the record.
_RADIUS = (
    "where no square determines a variable, its optimum is taken to be within 1000 times the largest size that it has "
    "at any point of the search; were it k times farther, the effect of rounding would be at most k times larger"
)


def fuse(
    machine: Any,
    over: Any,
    validation: Any = None,
    cv: Any = None,
    gap: float = 1e-2,
    *,
    loss: Any = "squared",
    data: tuple[Any, ...] | None = None,
    box: Any = None,
    budget: int | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Fusion:
    """Choose the parameters whose machine validates best, and bound how much better any others could be.

    :equation [Pelckmans2005]_ (28): fusion of structure detection with validation, over all parameters

    Parameters
    ----------
    machine
        A :class:`~substrate.Machine`; a convex ``cvxpy.Problem`` that is affine in its parameters
        (``problem.is_dcp(dpp=True)``), or convex in its variables together with the bound of a constraint or the width
        of a tube; or a function ``(X, y) -> Machine`` (with ``data``, and the parameters by name).
    over
        The parameter, a ``cvxpy.Parameter(nonneg=True)`` or its name; two or three, as a tuple, are chosen together. A
        parameter is the weight of a term of the objective, a bound in a constraint or the width of a tube. Machines
        with shapes that hold everywhere (:class:`~substrate.Everywhere`) are refused: their weight is chosen by folds.
    validation
        Points and targets to validate on; a machine whose outputs have names takes a dict of targets, with None for
        an output that is not validated, and the sum of the outputs' errors is minimised. For a cvxpy problem the
        validation error itself: a convex expression of its variables without parameters, such as
        ``cp.sum_squares(V @ x - u)``.
    cv
        A number of folds, ``"loo"``, a scikit-learn splitter or a list of ``(train, test)`` rows, for a function, with
        ``data``. As in scikit-learn, a number of folds means consecutive rows, stratified in classification.
    gap
        Relative distance between validation error and lower bound at which the search ends.
    loss : {"squared", "mean_absolute", "pinball", "hinge", "log_loss"} or ("pinball", level)
        What is taken of the targets and predictions of the validation rows; the certificate states it. Labels -1 and
        +1 for the last two.
    data
        X and y, for a function; y is a dict of targets for a function whose machine has named outputs.
    box
        The values of the parameters that are considered: ``{parameter or name: (low, high)}``. Unless given, a weight
        is considered from 1e-3 to 1e3, times the power of ten next to the unit of the targets where it weighs something
        linear against squares; a parameter in a constraint needs a range. ``proved_on`` of the result states
        where the bound holds.
    budget
        Largest number of solves, 500 for one parameter and 2000 for several unless given; a search that uses all of
        them reports it.
    time_limit
        Largest number of seconds, from the call on; None: as long as it takes. A solve that has begun is finished, and
        the machine that is returned is solved after it.
    progress
        Called with the number of solves, the best error and the bound (sums over the rows) during the search; None
        writes them to a terminal from ten seconds on. A search that is to take more than ten minutes, by
        its first solves, is a :class:`~substrate.errors.LongFitWarning` too.

    Returns
    -------
    Fusion
        Its ``validation_error`` is the error of what its ``predict`` returns for the validation rows; with ``cv`` it is
        the error of the machines of the folds, which are its ``folds``. The certificate holds where the gap is proved,
        relative to the validation error or to a millionth of the variance of the targets where that is more. An
        interrupt or a spent budget ends the search with the best machine so far; ``stop`` says so, and the certificate
        does not hold. Of a cvxpy problem it has no ``result``: parameters and variables are left at the best values.

    Examples
    --------
    >>> import cvxpy as cp, numpy as np
    >>> from substrate import fuse
    >>> rng = np.random.default_rng(0)
    >>> X, V = rng.normal(size=(30, 5)), rng.normal(size=(30, 5))
    >>> y, u = (P[:, 0] + 0.5 * rng.normal(size=30) for P in (X, V))
    >>> x, weight = cp.Variable(5), cp.Parameter(nonneg=True, name="weight")
    >>> lasso = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(X @ x - y) + weight * cp.norm1(x)))
    >>> best = fuse(lasso, weight, cp.sum_squares(V @ x - u) / 30, box={weight: (1e-2, 1e2)}, gap=0.01)
    >>> best.certificate.holds
    True
    """
    target, several = positive(gap, "gap"), isinstance(over, (list, tuple)) and len(over) > 1
    budget = _BUDGETS[several] if budget is None else budget
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise DeclarationError(f"budget must be a positive integer, received {budget!r}")
    limits = Limits(budget, np.inf if time_limit is None else positive(time_limit, "time_limit"))
    task = declare(machine, over, validation, cv, data, loss)
    with ExitStack() as stack:  # the parameters of a machine have one value at a time
        for each in {id(each): each for each in (*task.machines, task.final) if each is not None}.values():
            stack.enter_context(each.lock)
        line = LateProgress()
        stack.callback(line.close)
        ends = complete_box(task, box)
        least = task.least
        families = families_of(task, ends, target)
        bound, family = next(iter(families.items()))
        if task.problem is not None:
            least = _NOTHING * abs(family.evaluate(tuple(high for _, high in ends)))
        # chords that need many solves are loose: the universal bound takes over
        most = max(budget // 4, min(budget, _FEW)) if bound == "chord" else budget
        first = replace(limits, budget=most)
        options: dict[str, Any] = {
            "gap": target,
            "progress": progress or partial(_show, line),
            "floor": task.floor,
            "least": least,
        }
        search = minimise(family, ends, limits=first, **options)
        if bound == "chord" and (search.stop == NOT_KNOWN or (most < budget and family.solves >= most)):
            while search.stop == NOT_KNOWN and options["gap"] < 1.0:  # how far chords reach: vertices are solved once
                options["gap"] *= _WIDER
                search = minimise(family, ends, limits=first, **options)
            limits.spent += family.solves
            other = minimise(
                families["universal"], ends, limits=limits, start=(search.best,), **(options | {"gap": target})
            )
            proved = max(search.lower_bound, other.lower_bound)
            if other.error - other.lower_bound < search.error - search.lower_bound:
                bound, family, search = "universal", families["universal"], other
            search = replace(search, lower_bound=min(proved, search.error), stop=other.stop)
        return _fusion(task, ends, bound, family, search, target, least)


def _show(line: LateProgress, solves: int, best: float, lower: float) -> None:
    """Write the state of a search to a terminal."""
    line.piece(f"fuse: {solves} solves, best {best:.6g}, bound {lower:.6g}")


def _fusion(
    task: FusionTask,
    ends: list[tuple[float, float]],
    bound: str,
    family: Any,
    search: SearchResult,
    gap: float,
    least: float,
) -> Fusion:
    """Return the result of a search: the machine at the best values, and the proof."""
    knot = family.knots[search.best]
    values: dict[str, Any] = dict(zip(task.names, search.best, strict=True))
    x, z = knot.shown, knot.dual.z
    results = [] if task.final is None else _take_machines(task, values, x, z)
    if task.final is None:
        total, result = _take_problem(task, search, x), None
    else:
        total = sum(rows.total(each.decision_function(rows.X)) for rows, each in zip(task.sets, results, strict=True))
        result = results[0] if task.final is task.machines[0] else task.final.solve(**values)
    error = total / task.weight
    lower = min(search.lower_bound / task.weight, error)
    gap_row = Row(
        name="gap of the search",
        value=error - lower if np.isfinite(lower) else np.inf,
        scale=max(abs(error), least / task.weight),
        tolerance=gap,
        formula="validation error - lower bound over the box",
    )
    stop = search.stop
    if stop == describe_met(gap) and not gap_row.passes:
        stop = f"the points of the search meet the gap of {gap:g}, the machine that was solved at the best does not"
    optimal = _optimality(task, family, search.best)
    title = f"Fusion over {' and '.join(task.names)}"
    if not gap_row.passes:
        tried = _state_proof(gap_row, len(family.knots), np.isfinite(lower) and gap_row.value < error)
        title += f" ({', '.join(f'{k} = {v:.4g}' for k, v in values.items())}, validation error {error:.4g}: {tried})"
    machine = result.certificate if result is not None else Certificate(title, ())
    facts = [("validation", task.words)]
    facts += [
        (f"fused over {name}", f"from {low:g} to {high:g}") for name, (low, high) in zip(values, ends, strict=True)
    ]
    facts += [
        ("choice", f"{name} at {values[name]:g}, an end of its range; box= looks further")
        for name, range_ in zip(values, ends, strict=True)
        if values[name] in range_
    ]
    counts = f"{family.solves} solves, {len(family.knots)} vertices, {len(search.cells)} cells"
    facts.append(("search", f"{counts}; {stop}"))
    if np.isfinite(lower):
        facts += [("bound", bound), ("radius of the bound", _RADIUS)]
        facts.append(("several optima", "the bound is for the optimum that validates best"))
        if task.final is None:
            facts.append((PROVED, f"validation error {error:.6g}, at most {error - lower:.2g} above the least"))
    return Fusion(
        values=values,
        validation_error=error,
        lower_bound=lower,
        proved_on=dict(zip(task.names, ends, strict=True)),
        certificate=Certificate(title, (*machine.rows, optimal, gap_row), (*machine.record, *facts)),
        result=result,
        path=_path(task, family, search, stop),
        loss=task.words,
        least=least / task.weight,
        folds=tuple(results) if len(results) > 1 else (),
        _proof=(bound, family, search.roots),
    )


def _take_problem(task: FusionTask, search: SearchResult, x: Array) -> float:
    """Leave a cvxpy problem at the best values, and return its validation error."""
    for parameter, value in zip(task.parameters, search.best, strict=True):
        parameter.value = value
    if task.assign is not None:
        task.assign(x)
    return task.validate(x)


def _take_machines(task: FusionTask, values: dict[str, Any], x: Array, z: Array) -> list[Any]:
    """Return the machines at the best point of the search, or solved again where it is not certified as an optimum."""
    results, wide, high = [], 0, 0
    for machine, (n, m) in zip(task.machines, task.sizes, strict=True):
        result = machine.take_optimum(x[wide : wide + n], z[high : high + m], **values)
        results.append(result if result.certificate.holds else machine.solve(**values))
        wide, high = wide + n, high + m
    return results


def _optimality(task: FusionTask, family: Any, theta: Theta) -> Row:
    """Compare the final objectives of the problems with the dual bound at the chosen values."""
    weights = np.append(1.0, theta)
    lowest, _ = family.base.lower_value(weights, family.knots[theta].dual)
    value = 0.0
    for problem in task.problems:
        sign = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
        value += sign * float(np.asarray(problem.objective.expr.value).item())
    return Row(
        name="optimality",
        value=max(value - lowest - float(weights @ family.base.d), 0.0),
        # where everything vanishes, what counts is the size at other values
        scale=abs(lowest) + _size(family, theta) + _NOTHING * _size(family, max(family.knots)),
        tolerance=_OPTIMAL,
        formula="objective - its dual bound, at the values chosen",
    )


def _size(family: Any, theta: Theta) -> float:
    """Return the sum of the sizes of the parts of the objective at a vertex."""
    x = family.knots[theta].shown
    terms, _ = family.base.terms(x, np.zeros_like(x))
    return float(np.abs(np.append(1.0, theta)) @ (np.abs(terms) + np.abs(family.base.d)))


def _path(task: FusionTask, family: Any, search: SearchResult, stop: str) -> FusedPath:
    """Return the record of a search."""
    thetas = sorted(family.knots)
    numbers = {theta: k for k, theta in enumerate(thetas)}
    simplices = [[numbers[theta] for theta in cell.corners] for cell in search.cells]
    values = np.array(thetas)
    return FusedPath(
        parameters=tuple(task.names),
        values=values.ravel() if len(task.names) == 1 else values,
        validation_errors=np.array([family.error(theta) for theta in thetas]) / task.weight,
        simplices=np.array(simplices, dtype=np.intp).reshape(-1, len(task.names) + 1),
        bounds=np.array([cell.bound for cell in search.cells]) / task.weight,
        stop=stop,
        solves=family.solves,
    )


def _state_proof(row: Row, trials: int, is_proved: bool) -> str:
    """State how much of a gap that was asked for is proved: nothing where the bound is trivial, zero for a loss."""
    tried = f"the best of {trials} that were tried"
    if not is_proved:
        return f"{tried}, not proved to be the best there is"
    # as many digits as tell the two apart
    digits = next((k for k in range(2, 17) if float(f"{row.relative:.{k}g}") > row.tolerance), 17)
    return f"{tried}, proved to be within {row.relative:.{digits}g} of the best there is, not within {row.tolerance:g}"


class CheckedProof(NamedTuple):
    """What was proved again: no value in the box validates better than the bound; and the best error at a vertex."""

    lower_bound: float
    validation_error: float
    proved_on: dict[str, tuple[float, float]]


def check_proof(
    path: Any, machine: Any, validation: Any = None, *, cv: Any = None, data: Any = None, loss: Any = "squared"
) -> CheckedProof:
    """Bound again from the points and cells of a file, for a machine or problem that is declared anew.

    The arguments are as in :func:`~substrate.fuse`. A file that does not fit them is refused; a changed one proves
    less, never more.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            stored = {key: file[key] for key in file.files}
        names, box = [str(name) for name in stored["names"]], [(float(a), float(b)) for a, b in stored["box"]]
        task = declare(machine, tuple(names), validation, cv, data, loss)
        ends = complete_box(task, dict(zip(names, box, strict=True)))
        family = families_of(task, ends, np.inf)[str(stored["bound"])]
        numbers = [stored[key] for key in stored if key not in ("bound", "names")]
        sound = all(np.isfinite(array).all() for array in numbers)
        if ends != box or not sound or (stored["fused"][:, 1] <= 0.0).any() or (stored["joint"][:, 2] <= 0.0).any():
            raise ValueError("its box or its numbers are none of this problem")
        thetas = [tuple(map(float, theta)) for theta in stored["thetas"]]
        for theta, x, z in zip(thetas, stored["x"], stored["z"], strict=True):
            family.knots[theta] = family.knot(theta, Point(x, z))
        for (k, s), x, z in zip(stored["fused"], stored["fused_x"], stored["fused_z"], strict=True):
            family.keep(family.knots[thetas[int(k)]], float(s), Point(x, z))
        leaves, cuts = list[tuple[Theta, ...]](), iter(stored["cuts"])
        for corners in cover(box):
            _replay(corners, cuts, leaves)
        for (leaf, k, s), x, z in zip(stored["joint"], stored["joint_x"], stored["joint_z"], strict=True):
            family.keep_jointly(leaves[int(leaf)], int(k), float(s), Point(x, z))
        bounds = [family.bound(corners, -np.inf, 0, Limits(1)) for corners in leaves]
        error = min(family.error(theta) for theta in thetas)
    except (KeyError, ValueError, IndexError, StopIteration, OSError, ArithmeticError, SolverError) as problem:
        raise CertificateError(f"the file {path} is no proof for this machine and validation: {problem}") from problem
    lower = max(min([*bounds, error]), task.floor)
    return CheckedProof(lower / task.weight, error / task.weight, dict(zip(names, box, strict=True)))


def _replay(corners: tuple[Theta, ...], cuts: Any, leaves: list[tuple[Theta, ...]]) -> None:
    first, second, share = next(cuts)
    if first < 0.0:
        leaves.append(corners)
        return
    if not 0.0 < share < 1.0 or first == second:
        raise ValueError("a cut is outside its edge")
    theta = along(corners[int(first)], corners[int(second)], float(share))
    for out in (int(first), int(second)):
        _replay(tuple(theta if k == out else corner for k, corner in enumerate(corners)), cuts, leaves)
