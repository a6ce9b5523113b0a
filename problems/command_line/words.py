"""Messages of the package, in the words of the command line instead of Python's."""

import ast
import re
import shlex

__all__ = ["in_shell"]

#: A parameter of Python with its value, as messages and remarks state it.
_PARAMETERS = (
    "adaptive|categorical|categories|class_weight|coverage|dates|decimal|delimiter|drop|encoding|gamma|group|id|impute|"
    "kernel|max_evaluations|model|n_basis|proba|random_state|refit|seconds|sigma|standardize|task|thousands|time|unknown|"
    "validation"
)
_STATED = re.compile(rf"\b({_PARAMETERS})=(\.\.\.|\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[\w.+-]+)")


def in_shell(text: str) -> str:
    """Return a message in the words of the command line: ``--impute median`` where Python has ``impute='median'``."""
    return _STATED.sub(_option, text)


def _option(match: re.Match[str]) -> str:
    name, value = match[1].replace("_", "-"), match[2]
    if value in ("...", "True", "[]"):
        return f"--{name}"
    if value == "False":
        return f"--no-{name}"
    try:
        given = ast.literal_eval(value) if value[0] in "['\"" else value
    except SyntaxError:  # the name of a column has brackets or quotes in it
        return match[0]
    words = given if isinstance(given, list) else [given]
    return " ".join([f"--{name}", *(word if word in ",." else shlex.quote(word) for word in map(str, words))])
