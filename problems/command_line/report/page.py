r"""The HTML of a report and its mathematics: one page, without scripts or network.

Formulas are MathML, which browsers typeset by themselves, for instance

.. math:: \min_{w, b, e} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i e_i^2

A formula is composed of small pieces, each a function that returns text.
"""

from collections.abc import Iterable, Sequence
from html import escape

from substrate.kernels import RBF, Componentwise, Kernel, Laplacian, Linear, Matern, Polynomial

__all__ = [
    "choice_formula",
    "code",
    "kernel_formula",
    "machine_formula",
    "page",
    "paragraph",
    "problem_formulas",
    "section",
    "spoken",
    "table",
]

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 54rem; background: #fff; color: #1a1a1a;
       font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid #ccc; }
h3 { font-size: 1rem; margin: 0 0 .3rem; }
p, ul { margin: .5rem 0; }
.verdict { padding: .7rem 1rem; border-left: 6px solid #1a6b3a; background: #eef6f0; }
.verdict.fails { border-color: #b00020; background: #fbecee; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid #ddd; vertical-align: top;
         overflow-wrap: anywhere; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th { overflow-wrap: normal; }
td small, th small { display: block; color: #555; font-weight: normal; }
math { font-size: 1.1rem; max-width: 100%; }
math[display="block"] { margin: .5rem 0; overflow-wrap: normal; }
pre { background: #f5f5f5; padding: .7rem; font-size: .85rem; white-space: pre-wrap; overflow-wrap: anywhere; }
figure { margin: 1rem 0; break-inside: avoid; }
figure img { width: 100%; height: auto; display: block; }
figcaption { font-size: .9rem; color: #444; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr)); gap: 0 1rem; }
footer { margin-top: 2.5rem; font-size: .85rem; color: #555; }
@media (max-width: 34rem) {
  body { padding: .8rem; font-size: 15px; }
  .wide { display: none; }
  math { font-size: 1rem; }
  table { font-size: .85rem; }
}
@media print { body { max-width: none; font-size: 10.5pt; } h2, h3 { break-after: avoid; } }
"""
# nothing may be fetched, and nothing may run
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_ICON = "data:,"


def page(title: str, body: Iterable[str]) -> str:
    """A whole page; ``title`` is plain text, the parts of ``body`` are HTML."""
    name = escape(title)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<link rel="icon" href="{_ICON}"><title>{name}</title><style>{_STYLE}</style>'
    )
    content = "\n".join(body)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n<h1>{name}</h1>\n{content}\n</body></html>\n'


def section(heading: str, *parts: str) -> str:
    """A heading in plain text, and HTML below it."""
    return f"<section>\n<h2>{escape(heading)}</h2>\n" + "\n".join(parts) + "\n</section>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    mark = f' class="{kind}"' if kind else ""
    return f"<p{mark}>{escape(text)}</p>"


def code(text: str) -> str:
    """A program."""
    return f"<pre><code>{escape(text)}</code></pre>"


def table(head: Sequence[str], kinds: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain text; ``kinds`` are classes of columns: "", "number", "wide" or both.

    In a cell, text after a line break is printed small below.
    """
    heads = "".join(_cell("th", kind, text) for kind, text in zip(kinds, head, strict=True))
    lines = ["".join(_cell("td", kind, text) for kind, text in zip(kinds, row, strict=True)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, kind: str, text: str) -> str:
    first, _, rest = text.partition("\n")
    small = f"<small>{escape(rest)}</small>" if rest else ""
    mark = f' class="{kind}"' if kind else ""
    return f"<{tag}{mark}>{escape(first)}{small}</{tag}>"


#: Names of letters as they are printed.
_GREEK = {"gamma": "γ", "zeta": "ζ", "rho": "ρ", "alpha": "α", "beta": "β", "phi": "φ", "sigma": "σ", "tau": "τ"}


def spoken(name: str) -> str:
    """A Greek letter by its sign."""
    return _GREEK.get(name, name)


def _i(name: str) -> str:
    return f"<mi>{escape(spoken(name))}</mi>"


def _o(sign: str) -> str:
    return f"<mo>{escape(sign)}</mo>"


def _n(value: object) -> str:
    return f"<mn>{escape(str(value))}</mn>"


def _text(words: str) -> str:
    return f"<mtext>{escape(words)}</mtext>"


def _row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def _sub(base: str, below: str) -> str:
    return f"<msub>{base}{below}</msub>"


def _sup(base: str, above: str) -> str:
    return f"<msup>{base}{above}</msup>"


def _frac(above: str, below: str) -> str:
    return f"<mfrac>{above}{below}</mfrac>"


def _in(*parts: str) -> str:
    """Parts in round brackets."""
    return _row(_o("("), *parts, _o(")"))


def _norm(inner: str, order: str = "") -> str:
    bars = _row(_o("‖"), inner, _o("‖"))
    return _sub(bars, _n(order)) if order else bars


def _sum(below: str, *parts: str) -> str:
    return _row(f"<munder>{_o('∑')}{below}</munder>", *parts)


def _min(*names: str) -> str:
    listed = _o(",").join(_i(name) for name in names)
    return f"<munder>{_text('min')}{_row(listed)}</munder><mspace width='0.3em'></mspace>"


def _displayed(*parts: str) -> str:
    return f'<math display="block">{_row(*parts)}</math>'


_HALF = _frac(_n(1), _n(2))
_E2 = f"<msubsup>{_i('e')}{_i('i')}{_n(2)}</msubsup>"
_XI = _sub(_i("x"), _i("i"))
_YI = _sub(_i("y"), _i("i"))
_EI = _sub(_i("e"), _i("i"))
_FEATURES = _row(_sup(_i("w"), _i("T")), _i("phi"), _in(_XI), _o("+"), _i("b"))
_SPACE = "<mspace width='0.8em'></mspace>"
_SUBJECT = _text("subject to") + _SPACE


def _fit_rows(output: str, task: str) -> str:
    """The equalities of level one, one per row i."""
    if task == "classification":
        return _row(_YI, _in(output), _o("="), _n(1), _o("−"), _EI)
    return _row(_YI, _o("="), output, _o("+"), _EI)


def _zero_sum(task: str) -> str:
    """The support values sum to zero; with a classifier's sign, times the labels."""
    label = _YI if task == "classification" else ""
    return _displayed(_sum(_i("i"), _sub(_i("alpha"), _i("i")), label), _o("="), _n(0))


def problem_formulas(model: str, task: str) -> tuple[str, ...]:
    """Objective and constraints of the problem that was solved, one per line."""
    if model == "l1":
        objective = _row(_HALF, _sup(_norm(_i("e")), _n(2)), _o("+"), _i("zeta"), _norm(_i("alpha"), "1"))
        names, coefficient = ("alpha", "b", "e"), _sub(_i("alpha"), _i("j"))
        if task == "classification":
            coefficient = _row(coefficient, _sub(_i("y"), _i("j")))
        kernel = _row(_i("k"), _in(_sub(_i("x"), _i("j")), _o(","), _XI))
        output = _row(_sum(_i("j"), coefficient, kernel), _o("+"), _i("b"))
        return _displayed(_min(*names), objective), _displayed(_SUBJECT, _fit_rows(output, task)), _zero_sum(task)
    if model == "structure":
        variation = _sum(_i("l"), _sub(_i("t"), _i("l")))
        objective = _row(_HALF, _sup(_norm(_i("e")), _n(2)), _o("+"), _i("rho"), variation)
        component = _row(_sup(_i("f"), _i("l")), _in(_sup(_XI, _i("l"))))
        output = _row(_sum(_i("l"), component), _o("+"), _i("b"))
        bound = _row(_o("|"), component, _o("|"), _o("≤"), _sub(_i("t"), _i("l")))
        return (
            _displayed(_min("alpha", "b", "e", "t"), objective),
            _displayed(_SUBJECT, _fit_rows(output, task)),
            _displayed(bound),
            _zero_sum(task),
        )
    weight = _sub(_i("v"), _i("i")) if model == "robust" else ""
    errors = _row(_frac(_i("gamma"), _n(2)), _sum(_i("i"), weight, _E2))
    objective = _row(_HALF, _sup(_i("w"), _i("T")), _i("w"), _o("+"), errors)
    return _displayed(_min("w", "b", "e"), objective), _displayed(_SUBJECT, _fit_rows(_FEATURES, task))


def machine_formula(model: str, task: str, n_classes: int = 2) -> str:
    """The formula of the predictor."""
    letter = "beta" if model == "sparse" else "alpha"
    coefficient = _sub(_i(letter), _i("i"))
    if task == "classification" and model != "sparse":
        coefficient = _row(coefficient, _YI)
    expansion = _row(_sum(_i("i"), coefficient, _i("k"), _in(_XI, _o(","), _i("x"))), _o("+"), _i("b"))
    if task == "classification":
        rule = "class by the sign of f" if n_classes == 2 else "class by the largest f"
        return _displayed(_i("f"), _in(_i("x")), _o("="), expansion, _o(","), _SPACE, _text(rule))
    return _displayed(_i("f"), _in(_i("x")), _o("="), expansion)


def kernel_formula(kernel: Kernel) -> str:
    """The formula of the kernel; empty for one without a short formula."""
    if isinstance(kernel, Componentwise):
        part = _row(_sup(_i("k"), _i("l")), _in(_sup(_i("x"), _i("l")), _o(","), _sup(_i("z"), _i("l"))))
        return _displayed(_i("k"), _in(_i("x"), _o(","), _i("z")), _o("="), _sum(_i("l"), part))
    distance = _norm(_row(_i("x"), _o("−"), _i("z")))
    inner = _row(_sup(_i("x"), _i("T")), _i("z"))
    formula = ""
    if isinstance(kernel, RBF):
        inside = _frac(_sup(distance, _n(2)), _sup(_i("sigma"), _n(2)))
        formula = _row(_i("exp"), _in(_o("−"), inside))
    elif isinstance(kernel, Laplacian):
        formula = _row(_i("exp"), _in(_o("−"), _frac(_sub(distance, _n(1)), _i("sigma"))))
    elif isinstance(kernel, Linear):
        formula = inner
    elif isinstance(kernel, Polynomial):
        formula = _sup(_in(inner, _o("+"), _n(f"{kernel.offset:g}")), _n(kernel.degree))
    elif isinstance(kernel, Matern) and kernel.nu == 1.5:
        s = _row(_i("s"), _o("="), f"<msqrt>{_n(3)}</msqrt>", _frac(distance, _i("sigma")))
        formula = _row(_in(_n(1), _o("+"), _i("s")), _sup(_i("e"), _row(_o("−"), _i("s"))), _o(","), _SPACE, s)
    return _displayed(_i("k"), _in(_i("x"), _o(","), _i("z")), _o("="), formula) if formula else ""


def choice_formula(weight: str, by: str) -> str:
    """How the weight was chosen: ``by`` is "loo" or "validation"."""
    left_out = f"<msubsup>{_i('f')}{_i(weight)}{_in(_o('−'), _i('i'))}</msubsup>"
    output = left_out if by == "loo" else _sub(_i("f"), _i(weight))
    error = _sup(_in(_YI, _o("−"), output, _in(_XI)), _n(2))
    below = _row(_i("i"), _o("∈"), _text("training" if by == "loo" else "validation"))
    return _displayed(_min(weight), _frac(_n(1), _i("n")), _sum(below, error))
