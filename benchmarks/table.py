"""The result of a topic: a table, and a sentence for every target that was missed."""

from dataclasses import dataclass

__all__ = ["Table", "yes_no"]


def yes_no(met: bool) -> str:
    return "yes" if met else "no"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings. Cells under a heading that starts with "met" state whether a target was reached."""

    title: str
    note: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    shortfalls: tuple[str, ...] = ()

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", self.note, ""]
        lines.append("| " + " | ".join(self.headings) + " |")
        lines.append("|" + "---|" * len(self.headings))
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        if self.shortfalls:
            lines += ["", "Where a target was missed:", "", *(f"- {sentence}" for sentence in self.shortfalls)]
        return "\n".join(lines) + "\n"
