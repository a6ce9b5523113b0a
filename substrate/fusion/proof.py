"""Proofs of fusions as files: points and cells of a search, bounded again from the problem that the checker declares.

Nothing else in a file is believed. Whatever its points are, the bounds that follow from them are true: feasibility,
multipliers and objectives are computed again. The cells cover the box by construction, since a file has only where each
was cut.
"""

from typing import Any, NamedTuple

import numpy as np

from substrate.composition.program import Point
from substrate.errors import CertificateError, SolverError
from substrate.fusion.search import Cell, Theta, along, cover
from substrate.fusion.task import complete_box, declare, families_of
from substrate.search.best_first import Limits

__all__ = ["CheckedProof", "check_proof", "save_proof"]


class CheckedProof(NamedTuple):
    """What was proved again: no value in the box validates better than the bound; and the best error at a vertex."""

    lower_bound: float
    validation_error: float
    proved_on: dict[str, tuple[float, float]]


def save_proof(fusion: Any, path: Any) -> None:
    """Write the box, the cuts, and the points of a search to a file (npz)."""
    name, family, roots = fusion._proof
    cuts, leaves = list[tuple[float, ...]](), list[tuple[Theta, ...]]()
    for root in roots:
        _flatten(root, cuts, leaves)
    thetas = list(family.knots)
    knots = list(family.knots.values())
    points = [knot.dual if name == "chord" else Point(knot.point, knot.dual.z) for knot in knots]
    fused, joint = [], []
    if name == "universal":
        fused = [
            (k, s, *known.point)
            for k, knot in enumerate(knots)
            for s, known in knot.fused.items()
            if known.point.x.size
        ]
        joint = [
            (leaves.index(corners), k, s, *known.point)
            for (corners, k), tried in family.joint.items()
            for s, known in tried.items()
            if corners in leaves and known.point.x.size
        ]
    with open(path, "wb") as file:
        np.savez(
            file,
            bound=np.array(name),
            names=np.array(list(fusion.values)),
            box=np.array(list(fusion.proved_on.values())),
            cuts=np.array(cuts),
            thetas=np.array(thetas),
            x=np.array([point.x for point in points]),
            z=np.array([point.z for point in points]),
            fused=np.array([pair[:2] for pair in fused]).reshape(-1, 2),
            fused_x=np.array([pair[2] for pair in fused]),
            fused_z=np.array([pair[3] for pair in fused]),
            joint=np.array([pair[:3] for pair in joint]).reshape(-1, 3),
            joint_x=np.array([pair[3] for pair in joint]),
            joint_z=np.array([pair[4] for pair in joint]),
        )


def _flatten(cell: Cell, cuts: list[tuple[float, ...]], leaves: list[tuple[Theta, ...]]) -> None:
    if cell.cut is None:
        cuts.append((-1.0, -1.0, 0.0))
        leaves.append(cell.corners)
        return
    cuts.append(tuple(map(float, cell.cut)))
    for part in cell.parts:
        _flatten(part, cuts, leaves)


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
