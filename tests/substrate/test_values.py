"""Values that are parameters: frozen, compared by content, printed as they are written, replaced by name."""

import pickle
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from sklearn.base import clone

from substrate.basis import Basis
from substrate.errors import DeclarationError
from substrate.values import Value

POINTS = np.arange(6.0).reshape(3, 2)
VALUES = [
    Basis(),
    Basis(50),
    Basis(7, "renyi", n_candidates=None, n_scoring=30, random_state=3),
    Basis(rule="feature_vectors", reconstruction_tolerance=0.1),
    Basis(rule=[1, 2]),
]
over_values = pytest.mark.parametrize("value", VALUES, ids=repr)


@over_values
def test_it_prints_as_it_is_written(value):
    assert eval(repr(value), {"Basis": Basis}) == value


@over_values
def test_it_is_frozen_and_its_own_clone(value):
    assert isinstance(value, Value)
    assert clone(value) is value
    assert pickle.loads(pickle.dumps(value)) == value
    for field in fields(value):
        with pytest.raises(FrozenInstanceError):
            setattr(value, field.name, None)


@over_values
def test_what_is_replaced_by_itself_is_equal(value):
    assert value.with_params(**value.get_params()) == value
    assert list(value.get_params()) == [field.name for field in fields(value)]
    assert [other == value for other in VALUES].count(True) == 1
    with pytest.raises(DeclarationError, match=r"has no parameter 'size'; it has \["):
        value.with_params(size=3)
    with pytest.raises(DeclarationError, match="has no parameters"):
        value.with_params(**{f"{fields(value)[0].name}__inner": 3})


@pytest.mark.parametrize(
    ("given", "basis"),
    [
        (None, Basis()),
        (50, Basis(n=50)),
        (np.int32(50), Basis(n=50)),
        ("renyi", Basis(rule="renyi")),
        ([3, 1], Basis(rule=[3, 1])),
        (POINTS, Basis(rule=POINTS)),
    ],
    ids=str,
)
def test_short_forms_of_a_basis(given, basis):
    assert Basis.of(given) == basis
    assert Basis.of(basis) is basis


@pytest.mark.parametrize("given", [True, np.True_, 2.0, np.float64(2.0), "greedy"], ids=repr)
def test_what_is_no_basis_is_refused(given):
    with pytest.raises(DeclarationError, match="basis must be a Basis, a number of vectors, one of feature_vectors"):
        Basis.of(given)


@pytest.mark.parametrize("state", ["seed", True, -1, 2**32, 0.5, [1]], ids=repr)
def test_what_is_no_seed_is_refused(state):
    with pytest.raises(DeclarationError, match=r"basis\.random_state must be an integer from 0 to 2\*\*32 - 1"):
        Basis(random_state=state)
