"""Run the tutorials: the programs of a page one after another, as a reader would, with the output of each.

``python docs/run_tutorials.py`` writes the output under each program again, and the pictures the programs save into
``docs/images``; a test runs the same pages and compares. The build of the documentation offers every tutorial as a
notebook too, which is made here from the page, so that both are always the same.
"""

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGES = sorted(page for page in (HERE / "tutorials").glob("*.md") if page.stem != "index")
PICTURES = HERE / "images"
#: A program, and, where the page shows it, what it prints.
PROGRAM = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n```text\n(?P<shown>.*?)```)?", flags=re.DOTALL)
#: A line drawn under the head of a table.
RULE = re.compile(r"[-=]{3,}|[─═]+")
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?(?![\w])")


def printed_by(page: Path) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each program of a page, and its output; all share one namespace and the current folder."""
    namespace = {"__name__": "__main__"}
    for program in PROGRAM.finditer(page.read_text(encoding="utf-8")):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(program["code"], str(page), "exec"), namespace)
        yield program, "".join(f"{line.rstrip()}\n" for line in output.getvalue().rstrip().splitlines())


def words_and_numbers(text: str) -> tuple[list[str], list[float]]:
    """Return what must be equal, and what must be close; the figures of a certificate are not compared.

    The width of a ruled line is not compared: it follows the figures above it, which rounding may lengthen.
    """
    certificate = "  tolerance  pass  formula" in text
    words = [RULE.sub("-", word) for word in NUMBER.sub("#", text).split()]
    return words, [] if certificate else [float(number) for number in NUMBER.findall(text)]


def rewrite(page: Path) -> str:
    """Return the page with the output its programs have now."""
    text = page.read_text(encoding="utf-8")
    for program, printed in printed_by(page):
        if program["shown"] is not None:
            new = program[0].replace(f"```text\n{program['shown']}```", f"```text\n{printed}```")
            text = text.replace(program[0], new)
    return text


def prose(markdown: str) -> str:
    """Return text of a page for a notebook: without pictures, which its cells draw, and without links into these
    pages.
    """
    text = re.sub(r"!\[[^]]*\]\([^)]*\)\n?", "", markdown)
    text = re.sub(r"\[([^]]*)\]\((?!https?:)[^)]*\)", r"\1", text)
    text = re.sub(r"^:::\{solution\}\n", "*Solution.* ", text, flags=re.MULTILINE)
    text = re.sub(r"^:::\n?", "", text, flags=re.MULTILINE)
    text = re.sub(r'<a href="[^"]*">([^<]*)</a>', r"\1", text)
    return re.sub(r"\{\w+\}(`[^`]*`)", r"\1", text).strip()


def notebook(page: Path) -> dict[str, Any]:
    """Return a tutorial in the Jupyter format 4.5: a cell for each program with what it prints, the text between
    them.
    """
    text, cells, end = page.read_text(encoding="utf-8"), [], 0

    def add(kind: str, source: str, **more: Any) -> None:
        cells.append({"cell_type": kind, "id": f"cell-{len(cells)}", "metadata": {}, "source": source, **more})

    for program in PROGRAM.finditer(text):
        add("markdown", prose(text[end : program.start()]))
        output = {"output_type": "stream", "name": "stdout", "text": program["shown"]}
        shown = [] if program["shown"] is None else [output]
        add("code", program["code"].rstrip("\n"), execution_count=None, outputs=shown)
        end = program.end()
    add("markdown", prose(text[end:]))
    cells[0]["source"] += "\n\nThis notebook needs the package `lssvm-substrate` with its extra `[tables]`."
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    """Refresh outputs and pictures."""
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            os.environ["MPLBACKEND"] = "Agg"
            text = rewrite(page)
            for picture in Path(folder).glob("*.png"):
                (PICTURES / picture.name).write_bytes(picture.read_bytes())
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
