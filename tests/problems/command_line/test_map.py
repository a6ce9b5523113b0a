"""``substrate map``: a picture of a table, and messages with the next step."""

import numpy as np
import pytest

from problems.command_line.main import main

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install matplotlib")


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(12, 2)), rng.normal(size=(12, 2)) + 6.0])
    cells = [f"{u!r},{v!r},{'ab'[k >= 12]}" for k, (u, v) in enumerate(X.tolist())]
    path = tmp_path / "table.csv"
    path.write_text("u,v,kind\n" + "\n".join(cells) + "\n", encoding="utf-8")
    return path, X


@pytest.mark.parametrize(("name", "begin"), [("map.png", b"\x89PNG"), ("map.svg", b"<?xml"), ("map.pdf", b"%PDF")])
def test_a_table_becomes_a_picture(tmp_path, table, capsys, name, begin):
    out = tmp_path / name
    assert main(["map", str(table[0]), "--out", str(out), "--color", "kind"]) == 0
    assert out.read_bytes().startswith(begin)
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "2 eigenvalues within" in printed.out
    assert printed.out.endswith(f"written: {out}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "map.gif"], "--out must end with .png, .svg, .pdf"),
        (["--color", "nothing"], "has no column 'nothing'"),
        (["--kernel", "rbf", "--sigma", "-1"], "sigma"),
    ],
)
def test_what_cannot_be_drawn_ends_with_status_two(tmp_path, monkeypatch, table, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["map", str(table[0]), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "map.png").exists()


def test_missing_cells_are_refused_or_filled_in_or_left_out(tmp_path, capsys):
    path = tmp_path / "holes.csv"
    path.write_text("u,v\n" + "".join(f"{k},{k % 3 if k != 4 else ''}\n" for k in range(9)), encoding="utf-8")
    out = ["--out", str(tmp_path / "map.svg")]
    assert main(["map", str(path), *out]) == 2
    assert "--impute" in capsys.readouterr().err
    for impute, count in (("median", 9), ("drop", 8)):
        with matplotlib.rc_context({"svg.fonttype": "none"}):
            assert main(["map", str(path), *out, "--impute", impute]) == 0
        assert f"holes.csv: {count} rows, 2 columns" in (tmp_path / "map.svg").read_text(encoding="utf-8")
