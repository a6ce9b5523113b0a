"""The numbered equations of the five papers, other papers that are cited by place, and how a docstring names them.

A docstring claims an equation in a field, ``:equation [Pelckmans2005]_ (16): the sparse substrate``; several are
separated by commas, and a range runs in the order of the paper: ``(20)-(22), (27a)-(27d)``. The parts of (27) count one
by one. The sparse system of [Cawley2002] has no number in print and is called (beta), after its unknowns.
"""

import re

__all__ = ["EQUATIONS", "expand", "label"]


def _numbers(first: int, last: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(first, last + 1))


EQUATIONS: dict[str, tuple[str, ...]] = {
    "Cawley2002": (*_numbers(1, 3), "beta"),
    "Carvalho2006": _numbers(1, 5),
    "Pelckmans2005": (*_numbers(1, 26), *(f"27{part}" for part in "abcdef"), *_numbers(28, 31)),
    "Cawley2004": (*_numbers(1, 6), "A.1", "A.2", "A.3"),
    "Suykens2002": _numbers(1, 15),
    "Espinoza2005": (),  # cited by place: its equations are not numbered here
    "Espinoza2005b": (),
    "Morozov1984": (),
    "Ivanov1976": (),
    "Alzate2010": (),
    "Mika1999b": (),
    "Suykens2003": (),
    "Barber2021": (),
    "Breiman1996": (),
    "Platt2000": (),
    "SunLoader1994": (),
    "Suykens2002b": (),
    "Vovk2005": (),
}

_ITEM = re.compile(r"\(([\w.]+)\)(?:-\(([\w.]+)\))?")


def expand(key: str, where: str) -> tuple[str, ...]:
    """Return the equations that a field names, in the paper's order; one that the paper does not have is a
    ValueError.
    """
    if key not in EQUATIONS:
        raise ValueError(f"[{key}] is not one of the papers with an equation ledger: {', '.join(EQUATIONS)}")
    equations, named = EQUATIONS[key], set[str]()
    for item in where.split(", "):
        match = _ITEM.fullmatch(item)
        ends = [end for end in match.groups() if end is not None] if match else []
        if not ends or any(end not in equations for end in ends):
            raise ValueError(f"[{key}] has no equation {item}; it has {label(equations[0])} to {label(equations[-1])}")
        first, last = equations.index(ends[0]), equations.index(ends[-1])
        if first > last:
            raise ValueError(f"the range {item} of [{key}] runs backwards")
        named.update(equations[first : last + 1])
    return tuple(number for number in equations if number in named)


def label(number: str) -> str:
    """Return the number as a paper prints it."""
    return f"({number})"
