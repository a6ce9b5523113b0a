"""Every advice that a refusal prints, obeyed, leads to a right reading of the table or to another refusal.

A case is a table, and what its columns hold in truth. The options that a message names are taken from it as a shell
would read them, and each is followed by itself.
"""

import re
import shlex

import numpy as np
import pytest

from problems import load
from problems.command_line.main import main
from problems.tables.columns import raw_matrix
from problems.tables.table import read_table

QUICK = ["--kernel", "rbf", "--gamma", "1", "--sigma", "1", "--validation", "0", "--quiet", "--no-standardize"]
#: Options of the reading of a table, with the number of words that may follow.
OPTIONS = (
    "decimal",
    "thousands",
    "delimiter",
    "encoding",
    "dates",
    "categories",
    "drop",
    "impute",
    "task",
    "id",
    "target",
)
N = 24
ROWS = np.arange(N)


def column(*cells):
    """Return these cells over and over."""
    return [cells[k % len(cells)] for k in range(N)]


#: Columns as they are written, with the numbers that they hold; None for no numbers.
CASES = {
    "decimal commas": ({"u": ([f'"{k},5"' for k in ROWS], ROWS + 0.5)}, {}),
    "dates with a space in their name": (
        {"Measured on": ([f"2024-01-{k + 1:02d}" for k in ROWS], ROWS.astype(float)), "v": (ROWS, ROWS)},
        {},
    ),
    "missing cells of two columns": (
        {"first one": (["", *ROWS[1:]], None), "v": ([*ROWS[:-1], "NA"], None), "w": (ROWS, ROWS)},
        {},
    ),
    "a word among numbers": ({"code": ([*ROWS[:-1], "x"], None), "v": (ROWS, ROWS)}, {}),
    "thousands or decimals": ({"u": ([f'"{k},{250 + k}"' for k in ROWS], None), "v": (ROWS, ROWS)}, {}),
    "several at once": (
        {
            "when": ([f"2024-02-{k + 1:02d}" for k in ROWS], ROWS.astype(float)),
            "code 2": ([*ROWS[:-1], "x"], None),
            "v": (["?", *ROWS[1:]], None),
        },
        {},
    ),
    "a target with a word": ({"v": (ROWS, ROWS)}, {"y": [*ROWS[:-1], "none yet"]}),
}


def write(path, columns, target):
    cells = {name: written for name, (written, _) in columns.items()} | (target or {"y": 2 * ROWS})
    lines = [",".join(cells), *(",".join(str(cell) for cell in row) for row in zip(*cells.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def advice_of(message):
    """Return the options that a message names, each as the words of a command line."""
    found = []
    for match in re.finditer(rf"--({'|'.join(OPTIONS)}) ([^;\n]*)", message):
        rest = match[2]
        try:
            words = shlex.split(rest.split(")")[0].split(", or")[0].split(" if ")[0].split(" to ")[0])
        except ValueError:
            words = rest.split()
        option = match[1]
        many = option in ("drop", "categories", "dates", "id")
        taken = words if many and match.start() and message[match.start() - 1] == "(" else words[:1]
        found.append([f"--{option}", *(word if word in ",." else word.rstrip(",") for word in taken)])
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_advice_leads_to_a_right_reading_or_to_a_refusal(case, tmp_path, capsys):
    columns, target = CASES[case]
    path, out = write(tmp_path / "t.csv", columns, target), tmp_path / "m.npz"
    line = ["fit", str(path), "--target", "y", *QUICK, "--out", str(out)]
    assert main(line) == 2, "the case needs a decision"
    message = capsys.readouterr().err
    advice = advice_of(message)
    assert advice, f"no option is named: {message}"
    followed, opened = [([], step) for step in advice], 0
    while followed:
        taken, step = followed.pop()
        words = [*taken, *step]
        out.unlink(missing_ok=True)
        status = main([*line, *words])
        said = capsys.readouterr().err
        assert status in (0, 2), said
        if status == 2:
            assert said.startswith("substrate: ")
            if len(taken) < 6:  # one more decision at a time, where another is left
                followed += [(words, more) for more in advice_of(said) if more[0] not in words][:1]
            continue
        opened += 1
        model = load(out)
        raw = raw_matrix(model.preparation_.inputs, read_with(path, words))
        for name, (_, numbers) in columns.items():
            if numbers is not None and name in model.preparation_.features:
                np.testing.assert_allclose(raw[:, model.preparation_.features.index(name)], numbers)
    assert opened, f"no advice of {message!r} leads to a model"


def read_with(path, words):
    """Return the table as the command reads it."""
    options = dict(zip(words[::2], words[1::2], strict=False))
    return read_table(path, None, options.get("--decimal"), options.get("--thousands"))


def test_all_problems_of_a_table_are_in_one_message(tmp_path, capsys):
    columns, _ = CASES["several at once"]
    assert main(["fit", str(write(tmp_path / "t.csv", columns, None)), "--target", "y", *QUICK]) == 2
    said = capsys.readouterr().err
    assert "3 decisions are needed about" in said
    for part in (
        "1. column 'when'",
        "use them by --dates when",
        "2. column 'code 2'",
        "--categories 'code 2'",
        "3. column 'v'",
    ):
        assert part in said
