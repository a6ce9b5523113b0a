r"""A third level: a list of kernels above the weights of a machine, chosen together with a proof.

.. math::

    \min_{k \in \{1, \dots, m\}} \; \min_\theta \; v(f_{k, \theta}) \quad \text{where} \quad
    f_{k, \theta} = \arg\min \; \text{the machine with kernel } k \text{ at } \theta

Every kernel is fused by itself (:func:`substrate.fuse`), so that :math:`v(f_{k, \theta}) \ge l_k` for all theta. The
best machine of all is kept, with :math:`\min_k l_k` as its bound: a statement about all weights of all kernels in the
list. Kernels between two of the list, such as widths, are not covered.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from substrate.arrays import positive
from substrate.certificates import Certificate, Row
from substrate.errors import DeclarationError, SolverError
from substrate.fusion.fuse import fuse
from substrate.fusion.result import Fusion, KernelList
from substrate.fusion.validated_machine import describe_values, state_proof
from substrate.kernels import as_kernel
from substrate.search.best_first import Limits, TimeEstimate

__all__ = ["fuse_kernels"]

#: What is proved of kernels that are not in the list.
_NOT_COVERED = "nothing is proved of kernels that are not listed, such as widths between two of them"
#: What a kernel is given where the time is spent before any is fused.
_LEAST_SECONDS = 1e-9


def fuse_kernels(
    build: Callable[[Any, Any, Any], Any],
    kernels: Iterable[Any] | Mapping[str, Any],
    over: Any,
    *,
    data: tuple[Any, Any],
    validation: tuple[Any, Any] | None = None,
    cv: Any = None,
    gap: float = 1e-3,
    time_limit: float | None = None,
    **options: Any,
) -> Fusion:
    """Choose a kernel of a list, and the weights, whose machine validates best; bound what all others could do.

    :equation [Pelckmans2005]_ (28): fusion over the weights of every kernel of a list

    Parameters
    ----------
    build
        A function ``(kernel, X, y) -> Machine``, with the weights by name.
    kernels
        The kernels, at least one: a list, or a dict with a name for each.
    over
        The name of the weight, or a tuple of names, as in :func:`substrate.fuse`.
    data
        Training points and targets.
    validation, cv
        Validation points and targets, or folds of the data, as in :func:`substrate.fuse`; the same for all kernels.
    gap
        Relative distance between validation error and lower bound at which the search of every kernel ends, and which
        the whole list has to meet.
    time_limit
        Largest number of seconds for the whole list; kernels that are not reached by then are not covered, so that
        nothing is proved of the list.
    **options
        What else :func:`substrate.fuse` takes: ``box``, ``budget`` (for every kernel), ``progress``, ...

    Returns
    -------
    Fusion
        That of the best kernel, with all of them in ``kernels``. The certificate holds where the gap is proved for the
        whole list. An interrupt, or the time limit, ends with the kernels that were fused until then, and the
        certificate does not hold.

    Examples
    --------
    >>> import cvxpy as cp
    >>> from substrate import Machine, Substrate, fuse_kernels
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> X, y = motorcycle()
    >>> def build(kernel, X, y):
    ...     s, C = Substrate(kernel, X, y / 50.0), cp.Parameter(nonneg=True, name="C")
    ...     return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(cp.abs(s.e) - 0.1)))
    >>> halves = {"data": (X[::4], y[::4]), "validation": (X[1::4], y[1::4] / 50.0)}
    >>> best = fuse_kernels(build, [RBF(2.0), RBF(8.0)], "C", gap=0.05, box={"C": (0.1, 10.0)}, **halves)
    >>> best.certificate.holds
    True
    """
    target = positive(gap, "gap")
    listed = _name_kernels(kernels)
    if not callable(build):
        raise DeclarationError(f"build is a function (kernel, X, y) -> Machine, received {build!r}")
    fusions: dict[str, Fusion] = {}
    failures: dict[str, str] = {}
    clock = Limits(1, np.inf if time_limit is None else positive(time_limit, "time_limit"))
    for name, kernel in listed.items():
        seconds = None if time_limit is None else clock.seconds_left
        if seconds is not None and seconds <= 0.0 and fusions:
            failures[name] = f"the time limit of {time_limit:g} s was reached before it"
            continue
        options["time_limit"] = None if seconds is None else max(seconds, _LEAST_SECONDS)
        try:
            fusions[name] = fuse(
                partial(build, kernel), over=over, data=data, validation=validation, cv=cv, gap=target, **options
            )
        except SolverError as error:
            failures[name] = str(error)
        except KeyboardInterrupt:
            if not fusions:
                raise
            failures |= {kernel_name: "interrupted" for kernel_name in listed if kernel_name not in fusions}
            break
        else:
            if "interrupted" in fusions[name].stop:
                failures |= {kernel_name: "interrupted" for kernel_name in listed if kernel_name not in fusions}
                break
    if not fusions:
        raise SolverError(f"no kernel of the list could be fused: {'; '.join(failures.values())}")
    return _result(listed, fusions, failures, target)


def _name_kernels(kernels: Any) -> dict[str, Any]:
    """Return the kernels by name; unless given, a name is how the kernel is printed."""
    if isinstance(kernels, Mapping):
        named = {str(name): as_kernel(kernel) for name, kernel in kernels.items()}
    elif isinstance(kernels, Iterable) and not isinstance(kernels, (str, bytes)):
        each = [as_kernel(kernel) for kernel in kernels]
        named = {repr(kernel): kernel for kernel in each}
        if len(named) < len(each):
            raise DeclarationError("kernels has the same one twice; leave one out, or give a dict of names and kernels")
    else:
        raise DeclarationError(f"kernels is a list of kernels or a dict of names and kernels, received {kernels!r}")
    if not named:
        raise DeclarationError("kernels is empty; give at least one kernel")
    return named


def _result(listed: dict[str, Any], fusions: dict[str, Fusion], failures: dict[str, str], gap: float) -> Fusion:
    name = min(fusions, key=lambda kernel_name: fusions[kernel_name].validation_error)
    best = fusions[name]
    error = best.validation_error
    lower = -np.inf if failures else min(kernel_name.lower_bound for kernel_name in fusions.values())
    rows_of_best = best.certificate.rows
    scale = next(
        (row.scale for row in rows_of_best if row.name.startswith("gap of ")), error
    )  # as the search measures it
    row = Row(
        name="gap over the kernels",
        value=error - lower if np.isfinite(lower) else np.inf,
        scale=scale,
        tolerance=gap,
        formula="validation error - smallest lower bound of all kernels",
    )
    weights = " and ".join(best.values)
    title = f"Fusion over {weights} and {len(listed)} kernels, those listed and none between"
    if not row.passes:
        trials = sum(len(fusion.path) for fusion in fusions.values())
        chosen = f"{name}, {describe_values(best.values)}"
        title += f" ({chosen}, validation error {error:.4g}: {state_proof(row, trials, lower <= 0.0)})"
    facts = [("kernel chosen", name), ("not covered", _NOT_COVERED)]
    for kernel_name, fusion in fusions.items():
        ranges = ", ".join(
            f"{weight} from {low:g} {'on' if np.isinf(high) else f'to {high:g}'}"
            for weight, (low, high) in fusion.proved_on.items()
        )
        description = f"{describe_values(fusion.values)}: validation error {fusion.validation_error:.6g}"
        bound = f"no value below {fusion.lower_bound:.6g}" if np.isfinite(fusion.lower_bound) else "nothing proved"
        facts.append((f"kernel {kernel_name}", f"{description}, {bound} ({ranges}); {fusion.path.stop}"))
    facts += [(f"kernel {kernel_name}", f"not fused, {reason}") for kernel_name, reason in failures.items()]
    certificate = Certificate(title, (*rows_of_best, row), (*best.certificate.record, *facts))
    reasons = dict.fromkeys([*(fusion.stop for fusion in fusions.values()), *failures.values()])
    return replace(
        best,
        lower_bound=lower,
        proved_on=common_ranges(fusions),
        path=replace(best.path, stop="; ".join(reasons), solves=sum(fusion.solves for fusion in fusions.values())),
        certificate=certificate,
        estimate=_total_estimate(fusions),
        kernels=KernelList(name, listed[name], fusions, failures),
    )


def common_ranges(fusions: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the values of each weight over which the bound holds for every kernel that was fused."""
    ranges = [fusion.proved_on for fusion in fusions.values()]
    return {
        name: (max(range_[name][0] for range_ in ranges), min(range_[name][1] for range_ in ranges))
        for name in ranges[0]
    }


def _total_estimate(fusions: Mapping[str, Fusion]) -> TimeEstimate | None:
    """Return how long the kernels that were fused were expected to take, together."""
    estimates = [fusion.estimate for fusion in fusions.values() if fusion.estimate is not None]
    if not estimates:
        return None
    return TimeEstimate(
        sum(estimate.seconds for estimate in estimates),
        sum(estimate.most for estimate in estimates),
        sum(estimate.solves for estimate in estimates),
    )
