r"""Fusion of training and validation: the parameter of a machine chosen with a proof.

.. math::

    \min_{\rho \ge 0} \; \frac1n \sum_{j=1}^n (y^v_j - f_\rho(x^v_j))^2 \quad \text{where} \quad
    f_\rho = \arg\min \; \text{the machine at } \rho

[Pelckmans2005]_ eq. (28): the machine's optimality conditions are constraints of a problem in rho as well. The paper
turns it into (29) and calls that convex; it is not, see :mod:`problems.fused_maximal_variation`. Here (28) itself is
solved: one search over cells (:mod:`substrate.search.best_first`) with a bound on each states how far from the global
optimum the answer can be. One parameter is several with one: chords over simplices, which are intervals then
(:mod:`substrate.fusion.joint`), where the machine is a quadratic program whose squares determine its predictions, and
the universal bound elsewhere (:mod:`substrate.fusion.machine_fusion`), and for cvxpy problems of every kind
(:mod:`substrate.fusion.problem_fusion`).
"""

import sys
from contextlib import ExitStack
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import positive
from substrate.composition import Machine
from substrate.errors import DeclarationError
from substrate.fusion.affine_terms import AffineTerms
from substrate.fusion.box import check_box, parameters_of
from substrate.fusion.joint import fuse_jointly
from substrate.fusion.machine_fusion import MachineFamily, fuse_over_box
from substrate.fusion.problem_fusion import RANGE, fuse_any_problem
from substrate.fusion.result import Fusion
from substrate.fusion.simplex_search import COLLAPSED
from substrate.fusion.validation import ValidationSet, check_pair, check_validation, folds_of
from substrate.fusion.validation_loss import SQUARED, check_loss
from substrate.search.best_first import Limits, Progress, late_progress

__all__ = ["fuse"]

#: Largest number of solves, for one parameter and for several.
_BUDGETS = (500, 2000)


def fuse(
    machine: Any,
    over: Any,
    validation: Any = None,
    cv: Any = None,
    gap: float = 1e-3,
    *,
    loss: Any = "squared",
    data: tuple[Any, ...] | None = None,
    box: Any = None,
    budget: int | None = None,
    time_limit: float | None = None,
    up_to: float | None = None,
    n_jobs: int = 1,
    progress: Progress | bool | None = None,
    **options: Any,
) -> Fusion:
    """Choose the parameter whose machine validates best, and bound how much better any other could be.

    :equation [Pelckmans2005]_ (28): fusion of structure detection with validation, over all rho

    Parameters
    ----------
    machine
        A :class:`~substrate.Machine`; a convex ``cvxpy.Problem`` that is affine in its parameters
        (``problem.is_dcp(dpp=True)``), or convex in its variables together with the bound of a constraint or the width
        of a tube; a function ``(X, y) -> Machine`` (with ``cv``, and the parameter by name); or an estimator that
        supports fusion.
    over
        The parameter, a ``cvxpy.Parameter(nonneg=True)`` or its name: the weight of a term of the objective. Where it
        is in the linear term of a quadratic program whose squares determine the predictions (the weight of a 1-norm or
        a maximum beside squared errors), or the weight of all squares there, the range unless given ends where what it
        weighs has vanished. Elsewhere (C
        of a tube, hinge or pinball loss with a bias, a ridge beside squared errors and constraints, logistic or Poisson
        losses) a range is: ``box``, or from 1e-3 to 1e3 (:mod:`substrate.fusion.universal_bound`). The width of a tube
        and the bound of a constraint are parameters too, with a range in ``box``. Two or three parameters, as a tuple,
        are chosen together. With three, the search may spend its budget before the gap is met, and says so. Machines
        with shapes that hold everywhere (:class:`~substrate.Everywhere`) are refused: their weight is chosen by folds.
    validation
        Points and targets to validate on; a machine whose outputs have names takes a dict of targets, with None for
        an output that is not validated, and the sum of the outputs' errors is minimised. ``(X, y, weights)`` weighs
        the rows. For a cvxpy problem the validation error itself: a convex expression of its variables without
        parameters, such as ``cp.sum_squares(V @ x - u)``.
    cv
        A number of folds, ``"loo"``, a scikit-learn splitter or a list of ``(train, test)`` rows, for a function or
        an estimator, with ``data``. As in scikit-learn, a number of folds means consecutive rows, stratified in
        classification.
    gap
        Relative distance between validation error and lower bound at which the search ends.
    loss : {"squared", "mean_absolute", "pinball", "hinge", "log_loss"} or ("pinball", level)
        What is taken of the targets and predictions of the validation rows; the certificate states it. Labels -1 and
        +1 for the last two. Losses other than squares are proved over a range, ``box``.
    data
        X and y, for a function or an estimator; y is a dict of targets for a function whose machine has named outputs.
        With weights of rows, ``(X, y, weights)``, the function is called with all three, and the folds are weighed.
    box
        The values of the parameters that are considered: ``{parameter or name: (low, high)}``. Unless given, a weight
        of the linear term is considered from zero to where what it weighs has vanished, which an infinite end asks for
        too, and the weight of squares from 1e-3 to 1e3; its lower end must be above zero. A parameter in a constraint
        needs a range. ``proved_on`` of the result states where the bound holds.
    budget
        Largest number of solves, 500 for one parameter and 2000 for several unless given; a search that uses all of
        them reports it.
    time_limit
        Largest number of seconds, from the call on; None: as long as it takes. A solve that has begun is finished, and
        the machine that is returned is solved after it. The result's ``estimate`` is what was expected.
    up_to
        The largest value of the parameter that is considered, or of 1/parameter where it is the weight of all squares;
        ``None`` ends where a larger one changes nothing.
    n_jobs
        How many folds are solved at a time.
    progress
        Called with the number of solves, the best error and the bound (sums of squares) during the search; True writes
        them to a terminal, None does so from ten seconds on, with an estimate of the time. One of more than ten
        minutes is a :class:`~substrate.errors.LongFitWarning` too.

    Returns
    -------
    Fusion
        Its ``validation_error`` is that of what its ``predict`` returns for the validation rows; with ``cv`` it is that
        of the machines of the folds, which are its ``folds``. The certificate holds where the gap is proved, relative
        to the validation error or to a millionth of the variance of the targets where that is more. An interrupt or a
        spent budget ends the search with the best machine so far; ``stop`` says so, and the certificate does not hold.
        Of a cvxpy problem it has no ``result``: parameters and variables are left at the best values.

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
    target, judged = positive(gap, "gap"), check_loss(loss)
    several = isinstance(over, (list, tuple)) and len(over) > 1
    budget = (_BUDGETS[several]) if budget is None else budget
    for name, count in (("budget", budget), ("n_jobs", n_jobs)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise DeclarationError(f"{name} must be a positive integer, received {count!r}")
    limits = Limits(budget, np.inf if time_limit is None else positive(time_limit, "time_limit"))
    top = None if up_to is None else positive(up_to, "up_to")
    if several and top is not None:
        raise DeclarationError("up_to is for one parameter; for several give box={name: (low, high)}")
    if top is not None and box is not None:
        raise DeclarationError("give either up_to or box={name: (low, high)}, not both")
    if hasattr(machine, "__fuse__"):
        if several:
            raise DeclarationError("an estimator is fused over its one parameter; for several fuse a Machine")
        if top is not None:
            raise DeclarationError("up_to is for machines; an estimator has the range of its path as a parameter")
        if time_limit is not None:
            raise DeclarationError("time_limit is for machines; an estimator follows its path to the end of its range")
        if judged != SQUARED:
            raise DeclarationError(f"an estimator is validated by squared errors; fuse a Machine for loss={loss!r}")
        fused: Fusion = machine.__fuse__(over, validation=validation, cv=cv, gap=target, data=data, **options)
        return fused
    if options:
        raise DeclarationError(f"fuse has no options {sorted(options)}")
    if isinstance(machine, cp.Problem):
        if not isinstance(validation, cp.Expression) or cv is not None or data is not None or judged != SQUARED:
            raise DeclarationError(
                "a cvxpy problem is fused with validation=, its validation error as a cvxpy expression, without cv, "
                "data and loss"
            )
        if top is not None:
            raise DeclarationError("up_to is for machines; give box={name: (low, high)}")
        with late_progress("fuse", limits) as late:
            shown = late if progress is None else _choose_progress(progress)
            return fuse_any_problem(machine, over, box, validation, target, limits, shown)
    if isinstance(machine, Machine):
        if validation is None or cv is not None:
            raise DeclarationError(
                "a machine is fused with validation=(X, y); for folds pass a function (X, y) -> Machine, data and cv"
            )
        machines, sets = [machine], [check_validation(machine, *check_pair(validation, "validation"), judged)]
        final = machine
    elif callable(machine):
        machines, sets, final = folds_of(machine, data, cv, validation, judged)
    else:
        raise DeclarationError(
            f"fuse needs a Machine, a cvxpy.Problem, a function (X, y) -> Machine or an estimator, received {machine!r}"
        )
    if any(each.shapes is not None for each in (*machines, final)):
        raise DeclarationError(
            "fuse has no bound for machines whose shape holds everywhere: choose the weight by folds, as "
            "LSSVMRegressorCV(monotone={0: 1}, cv=5) does, or ask for the shape at points instead of Everywhere"
        )
    with ExitStack() as stack:  # the parameters of a machine have one value at a time
        for each in {id(each): each for each in (*machines, final)}.values():
            stack.enter_context(each.lock)
        names = _names(final, over)
        ends = _given_ends(names, box)
        late = stack.enter_context(late_progress("fuse", limits))
        shown = late if progress is None else _choose_progress(progress)
        parameters = [parameters_of(each, names) for each in machines]
        terms = _chord_terms(machines, parameters) if judged == SQUARED else DeclarationError("")
        inverse = not isinstance(terms, DeclarationError) and terms[0].inverse
        if not isinstance(terms, DeclarationError):
            range_of_chords = box
            if top is not None and terms[0].ridge >= 0:
                range_of_chords = {names[0]: _range_up_to(top, False)}
            elif top is not None:
                range_of_chords = {names[0]: (1.0 / top, np.inf) if inverse else (0.0, top)}
            # a weight of squares may leave less than rounding at the ends of a wide range, and cells reach zero
            single = len(names) == 1 and terms[0].ridge >= 0
            result = None
            if not (single and ends[0] is not None and ends[0][0] == 0.0):
                options_of_search = (target, limits, shown, n_jobs)
                result = fuse_jointly(machines, sets, final, terms, names, range_of_chords, *options_of_search)
            if result is not None and not (single and result.stop == COLLAPSED):
                return result
            limits.spent += 0 if result is None else result.path.solves
        if top is not None:
            ends = [_range_up_to(top, inverse)]
        families = _families(machines, parameters, sets)
        if isinstance(families, DeclarationError):  # neither bound applies
            raise terms if len(names) > 1 and isinstance(terms, DeclarationError) and str(terms) else families
        return fuse_over_box(families, machines, sets, final, names, ends, target, limits, shown)


def _chord_terms(machines: list[Machine], parameters: list[list[Any]]) -> list[AffineTerms] | DeclarationError:
    """Return the quadratic programs whose chords bound the weights, or why there are none."""
    try:
        return [AffineTerms.of(machine.problem, own) for machine, own in zip(machines, parameters, strict=True)]
    except DeclarationError as refusal:
        return refusal


def _names(machine: Machine, over: Any) -> list[str]:
    """Return the names of the parameters that are fused over."""
    if isinstance(over, (list, tuple)) and len(over) > 1:
        return [parameter.name() for parameter in parameters_of(machine, over)]
    over = over[0] if isinstance(over, (list, tuple)) and over else over
    return [_parameter(machine, over).name()]


def _families(
    machines: list[Machine], parameters: list[list[Any]], sets: list[ValidationSet]
) -> list[MachineFamily] | DeclarationError:
    """Return what the universal bound needs of the folds, or why it does not apply."""
    try:
        return [MachineFamily(*each) for each in zip(machines, parameters, sets, strict=True)]
    except DeclarationError as refusal:
        return refusal


def _given_ends(names: list[str], box: Any) -> list[tuple[float, float] | None]:
    """Return the ranges that are given, in the order of names."""
    check_box(box, names, None, signed=True)
    ends_by_name = {key.name() if isinstance(key, cp.Parameter) else key: ends for key, ends in (box or {}).items()}
    ends_found = []
    for name in names:
        ends = ends_by_name.get(name)
        ends_found.append(None if ends is None else (float(ends[0]), float(ends[1])))
    return ends_found


def _range_up_to(top: float, inverse: bool) -> tuple[float, float]:
    """Return the values of a weight up to the largest that is considered, or of its inverse."""
    low, high = RANGE
    return (1.0 / top, max(high, 1e3 / top)) if inverse else (min(low, 1e-3 * top), top)


def _choose_progress(progress: Progress | bool) -> Progress:
    """Return the function called during the search: the user's, one that writes a line to a terminal, or none."""
    if callable(progress):
        return progress
    if not progress or not sys.stderr.isatty():
        return lambda *_: None
    return lambda solves, best, lower: print(
        f"\rfuse: {solves} solves, squares {best:.6g}, bound {lower:.6g} ", end="", file=sys.stderr, flush=True
    )


def _parameter(machine: Machine, over: Any) -> Any:
    if isinstance(over, (list, tuple, set, frozenset, dict)):
        raise DeclarationError(f"give several parameters as a tuple, over=(first, second), received {over!r}")
    name = over.name() if isinstance(over, cp.Parameter) else over
    if not isinstance(name, str):
        raise DeclarationError(f"over is a cvxpy.Parameter or its name, received {over!r}")
    by_name = {parameter.name(): parameter for parameter in machine.problem.parameters()}
    if name not in by_name:
        raise DeclarationError(f"the machine has no parameter {name!r}; it has {sorted(by_name)}")
    parameter = by_name[name]
    weighs = any(parameter_of_problem is parameter for parameter_of_problem in machine.problem.objective.parameters())
    if not parameter.is_scalar() or (weighs and not parameter.is_nonneg()):
        raise DeclarationError(f"{name!r} must be one non-negative number: cp.Parameter(nonneg=True, name={name!r})")
    missing = sorted(
        name_of_other
        for name_of_other, parameter_of_problem in by_name.items()
        if name_of_other != name and parameter_of_problem.value is None
    )
    if missing:
        raise DeclarationError(f"parameters {missing} have no value; give them one before fusing over {name!r}")
    return parameter
