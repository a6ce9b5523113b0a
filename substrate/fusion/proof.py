"""Proofs of fusions as files: points and cells of a search, bounded again from the problem that the checker declares.

Nothing else in a file is believed. Whatever its points are, the bounds that follow from them are true: feasibility,
multipliers and objectives are computed again. The cells cover the box by construction, since a file has only where each
was cut.
"""

from typing import Any, NamedTuple

import numpy as np

from substrate.composition.program import Point
from substrate.errors import CertificateError, SolverError
from substrate.fusion.search import Theta, along, cover
from substrate.fusion.task import complete_box, declare, families_of
from substrate.search.best_first import Limits

__all__ = ["CheckedProof", "check_proof"]


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
        ends, _ = complete_box(task, dict(zip(names, box, strict=True)))
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
