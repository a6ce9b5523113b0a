r"""The mathematics of a report as MathML, which browsers typeset by themselves, for instance

.. math:: \min_{w, b, e} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i e_i^2

A formula is composed of small pieces, each a function that returns text.
"""

from html import escape

from substrate.kernels import RBF, Componentwise, Kernel, Laplacian, Linear, Matern, Polynomial

__all__ = ["choice_formula", "kernel_formula", "machine_formula", "problem_formulas", "spoken"]

#: Names of letters as they are printed.
_GREEK = {"gamma": "γ", "zeta": "ζ", "rho": "ρ", "alpha": "α", "beta": "β", "phi": "φ", "sigma": "σ", "tau": "τ"}


def spoken(name: str) -> str:
    """Return a Greek letter by its sign."""
    return _GREEK.get(name, name)


def _i(name: str) -> str:
    return f"<mi>{escape(spoken(name))}</mi>"


def _o(sign: str) -> str:
    return f"<mo>{escape(sign)}</mo>"


def _n(value: object) -> str:
    return f"<mn>{escape(str(value))}</mn>"


def _text(words: str) -> str:
    return f"<mtext>{escape(words)}</mtext>"


def _row(*elements: str) -> str:
    return f"<mrow>{''.join(elements)}</mrow>"


def _sub(base: str, below: str) -> str:
    return f"<msub>{base}{below}</msub>"


def _sup(base: str, above: str) -> str:
    return f"<msup>{base}{above}</msup>"


def _frac(above: str, below: str) -> str:
    return f"<mfrac>{above}{below}</mfrac>"


def _in(*elements: str) -> str:
    """Put elements into round brackets."""
    return _row(_o("("), *elements, _o(")"))


def _norm(inner: str, order: str = "") -> str:
    bars = _row(_o("‖"), inner, _o("‖"))
    return _sub(bars, _n(order)) if order else bars


def _sum(below: str, *elements: str) -> str:
    return _row(f"<munder>{_o('∑')}{below}</munder>", *elements)


def _min(*names: str) -> str:
    listed = _o(",").join(_i(name) for name in names)
    return f"<munder>{_text('min')}{_row(listed)}</munder><mspace width='0.3em'></mspace>"


def _display_equation(*elements: str) -> str:
    return f'<math display="block">{_row(*elements)}</math>'


_HALF = _frac(_n(1), _n(2))
_E2 = f"<msubsup>{_i('e')}{_i('i')}{_n(2)}</msubsup>"
_XI = _sub(_i("x"), _i("i"))
_YI = _sub(_i("y"), _i("i"))
_EI = _sub(_i("e"), _i("i"))
_FEATURES = _row(_sup(_i("w"), _i("T")), _i("phi"), _in(_XI), _o("+"), _i("b"))
_SPACE = "<mspace width='0.8em'></mspace>"
_SUBJECT = _text("subject to") + _SPACE


def _fit_rows(output: str, task: str) -> str:
    """Return the equalities of level one, one per row i."""
    if task == "classification":
        return _row(_YI, _in(output), _o("="), _n(1), _o("−"), _EI)
    return _row(_YI, _o("="), output, _o("+"), _EI)


def _zero_sum(task: str) -> str:
    """State that the support values sum to zero; with a classifier's sign, times the labels."""
    label = _YI if task == "classification" else ""
    return _display_equation(_sum(_i("i"), _sub(_i("alpha"), _i("i")), label), _o("="), _n(0))


def problem_formulas(model: str, task: str) -> tuple[str, ...]:
    """Return objective and constraints of the problem that was solved, one per line."""
    if model == "l1":
        objective = _row(_HALF, _sup(_norm(_i("e")), _n(2)), _o("+"), _i("zeta"), _norm(_i("alpha"), "1"))
        names, coefficient = ("alpha", "b", "e"), _sub(_i("alpha"), _i("j"))
        if task == "classification":
            coefficient = _row(coefficient, _sub(_i("y"), _i("j")))
        kernel = _row(_i("k"), _in(_sub(_i("x"), _i("j")), _o(","), _XI))
        output = _row(_sum(_i("j"), coefficient, kernel), _o("+"), _i("b"))
        return (
            _display_equation(_min(*names), objective),
            _display_equation(_SUBJECT, _fit_rows(output, task)),
            _zero_sum(task),
        )
    if model == "structure":
        variation = _sum(_i("l"), _sub(_i("t"), _i("l")))
        objective = _row(_HALF, _sup(_norm(_i("e")), _n(2)), _o("+"), _i("rho"), variation)
        component = _row(_sup(_i("f"), _i("l")), _in(_sup(_XI, _i("l"))))
        output = _row(_sum(_i("l"), component), _o("+"), _i("b"))
        bound = _row(_o("|"), component, _o("|"), _o("≤"), _sub(_i("t"), _i("l")))
        return (
            _display_equation(_min("alpha", "b", "e", "t"), objective),
            _display_equation(_SUBJECT, _fit_rows(output, task)),
            _display_equation(bound),
            _zero_sum(task),
        )
    weight = _sub(_i("v"), _i("i")) if model == "robust" else ""
    errors = _row(_frac(_i("gamma"), _n(2)), _sum(_i("i"), weight, _E2))
    objective = _row(_HALF, _sup(_i("w"), _i("T")), _i("w"), _o("+"), errors)
    return _display_equation(_min("w", "b", "e"), objective), _display_equation(_SUBJECT, _fit_rows(_FEATURES, task))


def machine_formula(model: str, task: str, n_classes: int = 2) -> str:
    """Return the formula of the predictor."""
    letter = "beta" if model == "sparse" else "alpha"
    coefficient = _sub(_i(letter), _i("i"))
    if task == "classification" and model != "sparse":
        coefficient = _row(coefficient, _YI)
    expansion = _row(_sum(_i("i"), coefficient, _i("k"), _in(_XI, _o(","), _i("x"))), _o("+"), _i("b"))
    if task == "classification":
        rule = "class by the sign of f" if n_classes == 2 else "class by the largest f"
        return _display_equation(_i("f"), _in(_i("x")), _o("="), expansion, _o(","), _SPACE, _text(rule))
    return _display_equation(_i("f"), _in(_i("x")), _o("="), expansion)


def kernel_formula(kernel: Kernel) -> str:
    """Return the formula of the kernel; empty for one without a short formula."""
    if isinstance(kernel, Componentwise):
        component = _row(_sup(_i("k"), _i("l")), _in(_sup(_i("x"), _i("l")), _o(","), _sup(_i("z"), _i("l"))))
        return _display_equation(_i("k"), _in(_i("x"), _o(","), _i("z")), _o("="), _sum(_i("l"), component))
    distance, width = _norm(_row(_i("x"), _o("−"), _i("z"))), _i("sigma")
    squares, ratio = _frac(_sup(distance, _n(2)), _sup(width, _n(2))), _frac(distance, width)
    absolute = _frac(_sub(distance, _n(1)), width)
    if isinstance(getattr(kernel, "sigma", None), tuple):  # one width for every input
        difference = _row(_sub(_i("x"), _i("l")), _o("−"), _sub(_i("z"), _i("l")))
        squares = _sum(_i("l"), _frac(_sup(_in(difference), _n(2)), f"<msubsup>{width}{_i('l')}{_n(2)}</msubsup>"))
        absolute = _sum(_i("l"), _frac(_row(_o("|"), difference, _o("|")), _sub(width, _i("l"))))
        ratio = f"<msqrt>{squares}</msqrt>"
    inner = _row(_sup(_i("x"), _i("T")), _i("z"))
    formula = ""
    if isinstance(kernel, RBF):
        formula = _row(_i("exp"), _in(_o("−"), squares))
    elif isinstance(kernel, Laplacian):
        formula = _row(_i("exp"), _in(_o("−"), absolute))
    elif isinstance(kernel, Linear):
        formula = inner
    elif isinstance(kernel, Polynomial):
        formula = _sup(_in(inner, _o("+"), _n(f"{kernel.offset:g}")), _n(kernel.degree))
    elif isinstance(kernel, Matern) and kernel.nu == 1.5:
        s = _row(_i("s"), _o("="), f"<msqrt>{_n(3)}</msqrt>", ratio)
        formula = _row(_in(_n(1), _o("+"), _i("s")), _sup(_i("e"), _row(_o("−"), _i("s"))), _o(","), _SPACE, s)
    return _display_equation(_i("k"), _in(_i("x"), _o(","), _i("z")), _o("="), formula) if formula else ""


def choice_formula(weight: str, by: str) -> str:
    """Return how the weight was chosen: ``by`` is "validation", or what is left out with row i, as "loo"."""
    is_left_out, together = by != "validation", _i("i") if by == "loo" else _in(_i("S"), _in(_i("i")))
    left_out = f"<msubsup>{_i('f')}{_i(weight)}{_in(_o('−'), together)}</msubsup>"
    output = left_out if is_left_out else _sub(_i("f"), _i(weight))
    error = _sup(_in(_YI, _o("−"), output, _in(_XI)), _n(2))
    below = _row(_i("i"), _o("∈"), _text("training" if is_left_out else "held-out"))
    return _display_equation(_min(weight), _frac(_n(1), _i("n")), _sum(below, error))
