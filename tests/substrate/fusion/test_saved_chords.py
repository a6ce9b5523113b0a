"""Proofs by chords and along exact paths are files too: checked again without a solver, and refused once changed."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from problems import L1SubstrateRegressor, MaximalVariationRegressor
from substrate import Machine, Substrate, fuse
from substrate.certificates.balls import ball, precision
from substrate.errors import DataError
from substrate.fusion import check_fusion, load_proof, prove_fusion, simplex_proof
from substrate.fusion.copositive import copositive
from substrate.fusion.simplex_balls import is_copositive
from substrate.kernels import RBF, Componentwise
from tests.oracles.joint_machines import rows, sparse_ridge, two_groups


def data(n=14, n_val=8, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-2.0, 2.0, size=(n, d)), rng.uniform(-2.0, 2.0, size=(n_val, d))
    y, w = (np.sin(P[:, 0]) + 0.3 * P[:, 1] ** 2 + 0.4 * rng.normal(size=len(P)) for P in (X, V))
    return (X, y), (V, w)


def variation(X, y):
    s, rho = Substrate(Componentwise(RBF(1.5)), X, y), cp.Parameter(nonneg=True, name="rho")
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))


def tube(X, y):
    s, lam = Substrate(RBF(1.0), X, y, bias=False), cp.Parameter(nonneg=True, name="lam")
    return Machine(s, minimize=0.5 * lam * s.squared_norm + cp.sum(cp.pos(cp.abs(s.e) - 0.1)))


def two_weights():
    X, y, V, w = rows(n=8, d=2)
    machine, parameters = two_groups(X, y)
    return fuse(machine, over=parameters, validation=(V, w), gap=0.05)


def ridge_and_norm():
    X, y, V, w = rows(n=6, d=2)
    machine, parameters = sparse_ridge(X, y)
    return fuse(machine, over=parameters, validation=(V, w), gap=0.02, box={"tau": (0.5, 5.0)})


def one_weight():
    train, check = data()
    return fuse(variation(*train), over="rho", validation=check)


def folds():
    return fuse(variation, over="rho", data=data(12)[0], cv=2, gap=0.05)


def a_range():
    train, check = data()
    return fuse(variation(*train), over="rho", validation=check, up_to=3.0)


def weight_of_squares():
    train, check = data()
    return fuse(tube(*train), over="lam", validation=check, gap=0.01)


def path_of_norm():
    train, check = data()
    return fuse(L1SubstrateRegressor(RBF(1.0)), over="zeta", data=train, validation=check)


def path_of_variation():
    return fuse(MaximalVariationRegressor(Componentwise(RBF(1.0))), over="rho", data=data(18)[0], cv=3)


SIMPLICES = (two_weights, ridge_and_norm, one_weight, folds, a_range, weight_of_squares)
PATHS = (path_of_norm, path_of_variation)
FUSIONS = {one.__name__: one for one in (*SIMPLICES, *PATHS)}


@pytest.fixture(scope="module")
def made():
    """Every fusion once, when it is asked for."""
    known = {}

    def make(name):
        if name not in known:
            known[name] = FUSIONS[name]()
        return known[name]

    return make


def without_solvers(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("something was solved")

    for name in ("clarabel.DefaultSolver", "piqp.DenseSolver", "piqp.SparseSolver", "cvxpy.Problem.solve"):
        monkeypatch.setattr(name, refuse)
    monkeypatch.setattr("substrate.fusion.affine_program.structured_solution", refuse)
    monkeypatch.setattr("substrate.penalized.homotopy.tracks.l1_path", refuse)
    monkeypatch.setattr("substrate.penalized.homotopy.tracks.variation_path", refuse)


@pytest.mark.parametrize("name", FUSIONS)
@pytest.mark.some_cases(5)
def test_another_person_checks_it_from_the_file(name, made, tmp_path, monkeypatch):
    best = made(name)
    assert best.certificate.holds, str(best.certificate)
    best.proof.save(tmp_path / "proof.npz")
    without_solvers(monkeypatch)
    certificate = check_fusion(tmp_path / "proof.npz")
    assert certificate.holds, str(certificate)
    assert "no value below" in str(certificate).splitlines()[0]
    assert "with all rounding" in dict(certificate.record)["how"]
    proof = load_proof(tmp_path / "proof.npz")
    assert type(proof) is type(best.proof)
    assert (proof.lower_bound, proof.values) == (best.lower_bound, best.values)
    assert dict(zip(proof.names, proof.box, strict=True)) == best.proved_on
    proof.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "proof.npz").read_bytes()


@pytest.mark.parametrize("name", [one.__name__ for one in SIMPLICES])
@pytest.mark.some_cases(1)
def test_chords_are_proved_in_balls(name, made, tmp_path):
    """Numbers that were changed prove nothing, in balls as little as in double precision."""
    proof = made(name).proof
    proof.save(tmp_path / "proof.npz")
    certificate = prove_fusion(tmp_path / "proof.npz", 128)
    assert certificate.holds, str(certificate)
    assert "balls of 128 bits" in dict(certificate.record)["how"]
    with precision(128):
        assert abs(proof.bound_in_balls() - proof.bound()) <= 0.01 * proof.gap * proof.bound()
    # above the error of the best knot: nothing proves that, however sharp the bounds are
    assert not replace(proof, lower_bound=proof.lower_bound + 1.1 * proof.gap * proof.validation_error).prove().holds
    for changes in (
        {"points": lambda points: points + 0.1},
        {"points": lambda points: 0.0 * points},
        {"duals": lambda duals: -duals},
        {"duals": lambda duals: 1.3 * duals},
    ):
        assert not changed_fold(proof, **changes).prove().holds, (name, list(changes))


def test_paths_have_no_proof_in_balls(made):
    with pytest.raises(DataError, match="universal inequality and by chords"):
        made("path_of_norm").proof.prove()


@pytest.mark.parametrize("order", [2, 3, 4])
def test_copositive_matrices_of_balls_are_those_of_double_precision(order):
    """Where a form has a direction in which it is negative, neither test passes; elsewhere both do."""
    rng = np.random.default_rng(order)
    shares = rng.dirichlet(np.full(order, 0.7), size=4000)
    verdicts = []
    for _ in range(60):
        H = rng.uniform(-1.0, 1.0, (order, order))
        H = H + H.T + rng.uniform(0.0, 3.0) * np.eye(order)
        verdict = is_copositive([[ball(value) for value in row] for row in H])
        lowest = float(np.einsum("ti,ij,tj->t", shares, H, shares).min())
        assert not (verdict and lowest < 0.0)
        assert verdict == bool(copositive(H[None])[0])
        verdicts.append(verdict)
    assert 5 < sum(verdicts) < 55


@pytest.mark.parametrize("name", FUSIONS)
@pytest.mark.some_cases(4)
def test_a_statement_that_was_changed_is_noticed(name, made):
    proof = made(name).proof
    size = proof.validation_error
    assert not replace(proof, lower_bound=proof.lower_bound + 2.0 * proof.gap * size).check().holds
    assert not replace(proof, validation_error=1.5 * size).check().holds
    (low, high), *others = proof.box
    wider = (low - 1.0, high) if low == 0.0 else (0.5 * low, high)
    certificate = replace(proof, box=(wider, *others)).check()
    assert "only" in dict(certificate.record)["proved"]


def changed_fold(proof, **changes):
    first = replace(proof.folds[0], **{name: change(getattr(proof.folds[0], name)) for name, change in changes.items()})
    return replace(proof, folds=(first, *proof.folds[1:]))


@pytest.mark.parametrize("name", [one.__name__ for one in SIMPLICES])
@pytest.mark.some_cases(2)
def test_numbers_that_were_changed_prove_nothing(name, made):
    proof = made(name).proof
    for changes in (
        {"points": lambda points: points + 0.1},
        {"points": lambda points: 0.0 * points},
        {"duals": lambda duals: -duals},
        {"duals": lambda duals: 1.3 * duals},
    ):
        certificate = changed_fold(proof, **changes).check()
        assert not certificate.holds, (name, list(changes))
        assert "DOES NOT HOLD" in str(certificate).splitlines()[0]
    bent = changed_fold(proof, terms=lambda terms: replace(terms, P0=-1.0 * terms.P0))
    assert "not convex" in dict(bent.check().record)["proved"]


def test_a_simplex_that_is_cut_elsewhere_covers_nothing(made):
    proof = made("two_weights").proof
    cuts = proof.cuts[()]
    moved = cuts.vertices.copy()
    moved[0, -1] = next(k for k in range(len(proof.corners)) if k not in cuts.vertices[0])
    certificate = replace(proof, cuts=proof.cuts | {(): replace(cuts, vertices=moved)}).check()
    assert "outside of it" in dict(certificate.record)["proved"]
    # a part that is left out would be a hole: its share says that it is one
    shares = cuts.shares.copy()
    shares[0] = np.eye(shares.shape[1])[int(shares[0].argmax())]
    certificate = replace(proof, cuts=proof.cuts | {(): replace(cuts, shares=shares)}).check()
    assert "outside of it" in dict(certificate.record)["proved"]
    none = replace(cuts, vertices=cuts.vertices[:0], shares=cuts.shares[:0])
    assert not replace(proof, cuts={(): none}).check().holds


def test_larger_weights_need_points_without_a_penalty(made):
    proof = made("ridge_and_norm").proof
    assert proof.box[0][1] == np.inf
    assert not replace(proof, vanishing={}).check().holds
    raised = {key: x + 1e-6 for key, x in proof.vanishing.items()}
    assert not replace(proof, vanishing=raised).check().holds


def test_a_weight_of_squares_has_an_upper_end(made):
    """Nothing is known of larger ridge weights, nor of those at which the squares were not computed."""
    proof = made("ridge_and_norm").proof
    (norm, (low, _)) = proof.box
    larger = replace(proof, box=(norm, (low, np.inf))).check()
    assert "nothing is known of larger weights" in dict(larger.record)["proved"]
    assert not larger.holds
    narrow = changed_fold(proof, ends=lambda ends: (2.0 * ends[0], ends[1])).check()
    assert "in which its squares are known" in dict(narrow.record)["proved"]


def test_a_path_that_ends_early_says_nothing_of_larger_values(made):
    """Its last machine is more than its bias, and could change."""
    proof = made("path_of_norm").proof
    assert proof.box[0][1] == np.inf
    (path,) = proof.paths
    kept = len(path) // 2
    primal, dual = (np.array([np.asarray(rows[k]) for k in range(kept)]) for rows in (path.primal, path.dual))
    early = replace(path, values=path.values[:kept], primal=primal, dual=dual, bias=path.bias[:kept])
    certificate = replace(proof, paths=(early,)).check()
    assert "larger values are not covered" in dict(certificate.record)["proved"]
    assert not certificate.holds


def test_cuts_that_are_left_out_leave_wider_intervals(made):
    proof = made("a_range").proof
    cuts = proof.cuts[()]
    first = replace(cuts, vertices=cuts.vertices[:1], shares=cuts.shares[:1])
    assert not replace(proof, cuts={(): first}).check().holds


def test_a_weight_of_squares_is_positive(made):
    """One over a negative weight would be below every value: nothing is proved there."""
    proof = made("weight_of_squares").proof
    ((_, high),) = proof.box
    certificate = replace(proof, box=((-1.0, high),)).check()
    assert "nothing: the simplices cover positive weights" in dict(certificate.record)["proved"]


@pytest.mark.parametrize("name", [one.__name__ for one in PATHS])
def test_points_off_the_path_prove_nothing(name, made):
    proof = made(name).proof
    path, *others = proof.paths
    key = "primal" if path.parameter == "zeta" else "dual"
    points = getattr(path, key)
    shrunk = replace(points, value=0.7 * points.value)
    assert not replace(proof, paths=(replace(path, **{key: shrunk}), *others)).check().holds


def test_what_an_interval_proves_is_computed_and_not_read(made, monkeypatch):
    """With another bound of an interval the check says so: it does not repeat what the file states."""
    proof = made("a_range").proof
    whole = simplex_proof.simplex_bound

    def half(*args):
        found = whole(*args)
        return replace(found, value=0.5 * found.value)

    monkeypatch.setattr(simplex_proof, "simplex_bound", half)
    assert not proof.check().holds


def test_numbers_that_do_not_fit_together_are_not_written(made, tmp_path):
    for name, change in (
        ("two_weights", {"corners": np.zeros((2, 2))}),
        ("a_range", {"inner": ((1.0, 0.0),)}),
        (
            "path_of_norm",
            {"machines": ({"Phi": np.eye(2), "y": np.zeros(3), "below": np.eye(2), "y_val": np.ones(2)},)},
        ),
    ):
        with pytest.raises(DataError, match="do not fit together"):
            replace(made(name).proof, **change).save(tmp_path / "proof.npz")
    assert not list(tmp_path.iterdir())
