"""Every example asks a question, is short, runs without a warning, and ends with a certificate that holds."""

import ast
import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
#: The examples of a second and more, which the slow tests run.
LONG = {
    "does_the_same_code_run_on_a_gpu",
    "how_do_i_bound_a_fairness_gap",
    "how_do_i_choose_a_weight_with_proof",
    "how_do_i_choose_two_weights_with_proof",
    "how_do_i_fit_a_hundred_thousand_rows",
    "how_do_i_fit_more_rows_than_memory",
    "how_few_vectors_are_enough_for_all_rows",
    "what_do_the_displays_show",
    "what_else_fits_at_any_number_of_rows",
    "what_if_some_inputs_are_costly",
    "what_if_the_kernel_matrix_does_not_fit",
    "which_inputs_matter_with_proof",
    "which_kernels_do_the_data_need",
    "which_inputs_matter_in_boston",
}
over_examples = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
over_runs = pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONG else []) for path in EXAMPLES],
    ids=lambda path: path.stem,
)


def test_there_are_examples():
    assert len(EXAMPLES) >= 5


@over_examples
def test_it_is_short_and_asks_a_question(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    question, rule, *introduction = ast.get_docstring(ast.parse(text)).splitlines()
    assert question.endswith("?")
    assert rule == "=" * len(question), "the question is the title of a page of the gallery"
    assert any(introduction), "a line or two under the question are its card in the gallery"
    assert path.stem.split("_")[0] in {"how", "what", "which", "do", "does", "why", "when", "where", "can", "is"}


@over_runs
def test_it_runs_and_its_certificate_holds(path, tmp_path, monkeypatch, capsys):
    # in this process: starting another for each, and importing cvxpy there, takes longer than most examples
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    before = {entry.name for entry in path.parent.iterdir()} | {"__pycache__"}
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    block = printed.rstrip().split("\n\n")[-1].splitlines()
    assert ": holds; " in block[0], block[0]
    assert "DOES NOT HOLD" not in printed
    heading = block[1].split()
    assert heading == ["check", "residual", "scale", "relative", "tolerance", "pass", "formula"]
    assert any(" yes " in line for line in block)
    assert not any(" NO " in line for line in block)
    assert {entry.name for entry in path.parent.iterdir()} <= before, "an example writes nothing beside itself"
