"""A program as source text of C or JavaScript: double precision, no library but that of the language.

Both languages share their expressions; a ``Dialect`` holds what differs. The text is a function of one row: its
operations on the inputs, one loop for each set of points, and what follows, every number written so that it reads back
as the same double.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.formulas.nodes import Points
from substrate.formulas.program import Program

__all__ = ["check_name", "quote", "write_c", "write_javascript"]

#: Numbers in a line of a table.
_PER_LINE = 4


class Dialect(NamedTuple):
    """What is written differently in the two languages."""

    number: str
    condition: str
    variable: str
    counter: str
    table: str
    opened: str
    closed: str
    library: str
    absolute: str


_C = Dialect(
    number="const double",
    condition="const int",
    variable="double",
    counter="int",
    table="static const double {name}[{size}] =",
    opened="{",
    closed="}",
    library="",
    absolute="fabs",
)
_JAVASCRIPT = Dialect(
    number="const",
    condition="const",
    variable="let",
    counter="let",
    table="const {name} =",
    opened="[",
    closed="]",
    library="Math.",
    absolute="Math.abs",
)
_INFIX: Mapping[str, str] = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "greater": ">"}
#: Words that name no function in one of the languages or the other.
_RESERVED = frozenset(
    """
    auto break case catch char class const continue debugger default delete do double else enum export extends false
    finally float for function goto if import in inline int let long main module new null register return short signed
    sizeof static struct super switch this throw true try typedef typeof union unsigned var void volatile while with
    yield
    """.split()  # noqa: SIM905
)

_C_HELPERS = {
    "count": """
/* How many of n sorted places are below v, and how many are not above it. */
static void {name}_count(const double *places, int n, double v, int *below, int *upto)
{{
    int low = 0, high = n;
    while (low < high) {{
        const int middle = low + (high - low) / 2;
        if (places[middle] < v) low = middle + 1; else high = middle;
    }}
    *below = low;
    *upto = (low < n && places[low] == v) ? low + 1 : low;
}}
""",
    "step": """
static double {name}_step(const double *places, const double *values, int n, double v)
{{
    int below, upto;
    {name}_count(places, n, v, &below, &upto);
    return values[below + upto];
}}
""",
    "interpolate": """
static double {name}_interpolate(const double *places, const double *values, int n, double v)
{{
    int below, upto;
    if (v < places[0]) return values[0];
    if (v >= places[n - 1]) return values[n - 1];
    {name}_count(places, n, v, &below, &upto);
    const int k = upto - 1;
    return (values[k + 1] - values[k]) / (places[k + 1] - places[k]) * (v - places[k]) + values[k];
}}
""",
}
_JAVASCRIPT_HELPERS = {
    "count": """
// How many of the sorted places are below v, and how many are not above it.
function {name}_count(places, v) {{
  let low = 0, high = places.length;
  while (low < high) {{
    const middle = low + Math.floor((high - low) / 2);
    if (places[middle] < v) low = middle + 1; else high = middle;
  }}
  return [low, low < places.length && places[low] === v ? low + 1 : low];
}}
""",
    "step": """
function {name}_step(places, values, n, v) {{
  const [below, upto] = {name}_count(places, v);
  return values[below + upto];
}}
""",
    "interpolate": """
function {name}_interpolate(places, values, n, v) {{
  if (v < places[0]) return values[0];
  if (v >= places[n - 1]) return values[n - 1];
  const k = {name}_count(places, v)[1] - 1;
  return (values[k + 1] - values[k]) / (places[k + 1] - places[k]) * (v - places[k]) + values[k];
}}
""",
}


def quote(value: Any) -> str:
    """Return a value as JSON that ends neither a string, a comment nor the script of a page."""
    return json.dumps(value).replace("<", "\\u003c").replace("*/", "*\\/")


def check_name(name: Any) -> str:
    """Return the name of a function, refused unless both languages take it for one."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in _RESERVED:
        raise DeclarationError(
            f"name must be the name of a function of C and JavaScript, letters, digits and _; received {name!r}"
        )
    return name


def write_c(program: Program, name: str, comments: Sequence[str]) -> str:
    """Return a file of C99: ``void NAME(const double *x, double *out)``, its tables, and the places of its outputs."""
    text = _Text(program, _C, check_name(name))
    body = text.body()
    places, count, labels = [], 0, []
    for output in program.outputs:
        places.append(f"#define {name.upper()}_{output.name.upper()} {count}")
        count += len(output.nodes)
        if output.labels is not None:
            words = ", ".join(_c_string(str(label)) for label in output.labels.tolist())
            labels.append(f"static const char *const {name}_labels[{len(output.labels)}] = {{{words}}};")
    header = [*_commented(comments, "/*", " *", " */"), "#include <math.h>", ""]
    header += [f"#define {name.upper()}_INPUTS {program.n_inputs}", f"#define {name.upper()}_OUTPUTS {count}", *places]
    numbers = [number for results in program.results for number in results]
    out = [f"    out[{place}] = {text.value(number)};" for place, number in enumerate(numbers)]
    helpers = text.helpers(_C_HELPERS)
    function = [f"void {name}(const double *x, double *out)", "{", *body, *out, "}"]
    return "\n".join([*header, "", *labels, *text.tables, helpers, *function, ""])


def write_javascript(program: Program, name: str, comments: Sequence[str]) -> str:
    """Return a script with ``function NAME(x)``, of an array of numbers, which returns its outputs by name."""
    text = _Text(program, _JAVASCRIPT, check_name(name))
    body = text.body()
    answers = []
    for output, numbers in zip(program.outputs, program.results, strict=True):
        values = [text.value(number) for number in numbers]
        if output.labels is not None:
            values = [f"{name}_labels[{value}]" for value in values]
            labels = quote([_plain(label) for label in output.labels.tolist()])
            text.tables.append(f"const {name}_labels = {labels};")
        answers.append(f"    {output.name}: {_nested(values, output.shape)},")
    helpers = text.helpers(_JAVASCRIPT_HELPERS)
    function = [f"function {name}(x) {{", *body, "  return {", *answers, "  };", "}"]
    exported = [f'if (typeof module !== "undefined") module.exports = {name};']
    return "\n".join([*_commented(comments, "//", "//", ""), "", *text.tables, helpers, *function, "", *exported, ""])


class _Text:
    """The lines of a function and its tables, while they are written."""

    def __init__(self, program: Program, dialect: Dialect, name: str) -> None:
        self.program, self.dialect, self.name = program, dialect, name
        self.tables: list[str] = []
        self._used: set[str] = set()
        self._indent = "    " if dialect is _C else "  "
        self._tables: dict[int, str] = {}

    def body(self) -> list[str]:
        """Return the operations in order."""
        lines = self._lines(self.program.numbers(), self._indent)
        for group, (points, totals) in enumerate(self.program.groups.items()):
            lines += self._loop(f"{self.name}_points_{group}", points, totals)
        return lines + self._lines(self.program.numbers(after_sums=True), self._indent)

    def helpers(self, texts: Mapping[str, str]) -> str:
        """Return the functions that look tables up, those that are used."""
        return "".join(text.format(name=self.name) for word, text in texts.items() if word in self._used)

    def _loop(self, table: str, points: Points, totals: Sequence[int]) -> list[str]:
        """Return the loop over some points, with all sums over them at once."""
        used, index = self._used_columns(points), self.dialect.counter
        coefficients = np.column_stack([self.program.instructions[number].value for number in totals])
        self._table(table, np.hstack([points.values[:, used], coefficients]).ravel())
        width = len(used) + len(totals)
        places = {column: place for place, column in enumerate(used)}
        lines = [f"{self._indent}{self.dialect.variable} v{number} = 0.0;" for number in totals]
        lines.append(f"{self._indent}for ({index} i = 0; i < {len(coefficients)}; ++i) {{")
        inner = 2 * self._indent
        for number in self.program.numbers(points):
            instruction = self.program.instructions[number]
            if instruction.operation == "coordinate":
                place = f"{table}[{width} * i + {places[instruction.value[1]]}]"
                lines.append(f"{inner}{self.dialect.number} v{number} = {place};")
            else:
                lines += self._lines([number], inner)
        for offset, number in enumerate(totals, start=len(used)):
            term = self.value(self.program.instructions[number].operands[0])
            lines.append(f"{inner}v{number} += {table}[{width} * i + {offset}] * {term};")
        return [*lines, f"{self._indent}}}"]

    def _used_columns(self, points: Points) -> list[int]:
        instructions = self.program.instructions
        return sorted({i.value[1] for i in instructions if i.operation == "coordinate" and i.value[0] is points})

    def _lines(self, numbers: Sequence[int], indent: str) -> list[str]:
        lines = []
        for number in numbers:
            operation = self.program.instructions[number].operation
            if operation not in ("constant", "total"):
                kind = self.dialect.condition if operation == "greater" else self.dialect.number
                lines.append(f"{indent}{kind} v{number} = {self._expression(number)};")
        return lines

    def value(self, number: int) -> str:
        """Return what stands for a result in an expression."""
        instruction = self.program.instructions[number]
        if instruction.operation != "constant":
            return f"v{number}"
        return _digits(instruction.value) if instruction.value >= 0.0 else f"({_digits(instruction.value)})"

    def _expression(self, number: int) -> str:
        operation, operands, value = self.program.instructions[number][:3]
        words, library = [self.value(operand) for operand in operands], self.dialect.library
        if operation == "input":
            return f"x[{value}]"
        if operation in _INFIX:
            return f"{words[0]} {_INFIX[operation]} {words[1]}"
        if operation == "negative":
            return f"-{words[0]}"
        if operation == "maximum":
            return f"{words[0]} > {words[1]} ? {words[0]} : {words[1]}"
        if operation == "select":
            return f"{words[0]} ? {words[1]} : {words[2]}"
        if operation == "fill":
            return f"{words[0]} != {words[0]} ? {words[1]} : {words[0]}"
        if operation == "differs":
            return f"{words[0]} != {words[1]} ? 1.0 : 0.0"
        if operation in ("step", "interpolate"):
            self._used |= {"count", operation}
            places, values = self._table_of(value.places), self._table_of(value.values)
            return f"{self.name}_{operation}({places}, {values}, {value.places.size}, {words[0]})"
        names = {"exponential": "exp", "root": "sqrt", "power": "pow"}
        function = self.dialect.absolute if operation == "absolute" else library + names[operation]
        return f"{function}({', '.join(words)})"

    def _table_of(self, values: Array) -> str:
        if id(values) not in self._tables:
            self._tables[id(values)] = f"{self.name}_table_{len(self._tables)}"
            self._table(self._tables[id(values)], values)
        return self._tables[id(values)]

    def _table(self, name: str, values: Array) -> None:
        digits = [_digits(value) for value in values.tolist()]
        lines = [", ".join(digits[k : k + _PER_LINE]) for k in range(0, len(digits), _PER_LINE)]
        head = self.dialect.table.format(name=name, size=max(len(digits), 1))
        inside = ",\n".join(f"{self._indent}{line}" for line in lines)
        self.tables.append(f"{head} {self.dialect.opened}\n{inside}\n{self.dialect.closed};")


def _digits(value: float) -> str:
    """Return the shortest decimal number that reads back as the same double."""
    if not np.isfinite(value):
        raise DeclarationError(f"a number of the formula is {value}, which no program can hold; scale the inputs")
    return repr(float(value))


def _nested(values: Sequence[str], shape: tuple[int, ...]) -> str:
    """Return entries in brackets as their shape says."""
    if not shape:
        return values[0]
    size = len(values) // shape[0]
    parts = [_nested(values[k * size : (k + 1) * size], shape[1:]) for k in range(shape[0])]
    return f"[{', '.join(parts)}]"


def _plain(label: Any) -> Any:
    return label if isinstance(label, (bool, int, float, str)) else str(label)


def _c_string(text: str) -> str:
    """Return a string of C with all that is not plain ASCII escaped, so that it ends where it should."""
    plain = set(range(32, 127)) - {ord(mark) for mark in '"\\?'}
    return '"' + "".join(chr(code) if code in plain else f"\\{code:03o}" for code in text.encode("utf-8")) + '"'


def _commented(lines: Sequence[str], first: str, middle: str, last: str) -> list[str]:
    """Return lines as a comment, which no line can end."""
    safe = [re.sub(r"\*/|[\r\n\u2028\u2029]", " ", line) for line in lines]
    body = [f"{first if number == 0 else middle} {line}".rstrip() for number, line in enumerate(safe)]
    return [*body, *([last] if last else [])]
