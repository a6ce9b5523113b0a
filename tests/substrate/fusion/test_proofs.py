"""Saved proofs: bounded again from the points and cells alone, and never to more than before by a changed file."""

import cvxpy as cp
import numpy as np
import pytest
from fused_forms import BOX, rows, tube, two_weights, width

from substrate import check_proof, fuse
from substrate.errors import CertificateError

#: Machines of each bound: the universal one, the one for parameters in constraints, and chords.
CASES = {
    "universal": (tube, "C", {"C": BOX}),
    "constraints": (width, "eps", {"eps": (0.05, 0.4)}),
    "chord": (two_weights, ("one", "two"), {"one": (0.1, 10.0), "two": (0.1, 10.0)}),
}


@pytest.fixture(scope="module", params=CASES)
def searched(request, tmp_path_factory):
    """A case, what its search found, and the file of the proof."""
    build, over, box = CASES[request.param]
    X, y, V, w = rows()
    best = fuse(build(X, y), over, validation=(V, w), box=box, gap=0.1)
    path = tmp_path_factory.mktemp("proofs") / "proof.npz"
    best.save_proof(path)
    return CASES[request.param], best, path


def test_a_proof_is_checked_from_its_points_alone(searched):
    (build, over, box), best, path = searched
    X, y, V, w = rows()
    checked = check_proof(path, build(X, y), validation=(V, w))
    assert checked.proved_on == best.proved_on
    np.testing.assert_allclose(checked.lower_bound, best.lower_bound, rtol=1e-6)
    np.testing.assert_allclose(checked.validation_error, best.validation_error, rtol=1e-6)
    other = check_proof(path, build(X, y), validation=(V, w + 1.0))
    truth = fuse(build(X, y), over, validation=(V, w + 1.0), box=box, gap=0.1)
    assert other.lower_bound <= truth.validation_error * (1.0 + 1e-9)


def test_a_changed_file_proves_less_or_is_refused(searched, tmp_path):
    (build, _, _), best, path = searched
    X, y, V, w = rows()
    machine = build(X, y)
    with np.load(path) as file:
        stored = {key: file[key] for key in file.files}
    rng = np.random.default_rng(0)
    for key in ("x", "z", "fused_x", "fused_z", "fused", "joint_x", "joint_z", "joint", "thetas", "cuts", "box"):
        if not stored[key].size:
            continue
        noise = 0.1 * np.abs(stored[key]).max() * rng.normal(size=stored[key].shape)
        np.savez(tmp_path / "changed.npz", **(stored | {key: stored[key] + noise}))
        try:
            checked = check_proof(tmp_path / "changed.npz", machine, validation=(V, w))
        except CertificateError:
            continue
        assert checked.lower_bound <= best.validation_error * (1.0 + 1e-9), key
    np.savez(tmp_path / "changed.npz", **{key: stored[key] for key in stored if key != "cuts"})
    with pytest.raises(CertificateError, match="is no proof for this machine"):
        check_proof(tmp_path / "changed.npz", machine, validation=(V, w))


def test_the_proof_of_a_problem(tmp_path):
    X, y, V, w = rows()
    x, weight = cp.Variable(2), cp.Parameter(nonneg=True, name="weight")
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(X @ x - y) + weight * cp.norm1(x)))
    error = cp.norm1(V @ x - w)
    best = fuse(problem, weight, error, box={weight: BOX}, gap=0.05)
    best.save_proof(tmp_path / "proof.npz")
    checked = check_proof(tmp_path / "proof.npz", problem, error)
    np.testing.assert_allclose(checked.lower_bound, best.lower_bound, rtol=1e-6)
