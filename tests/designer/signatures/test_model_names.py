import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from designer.signatures import model_names
from tests.designer.strategies import characters, wire_names

any_names = st.text(characters, max_size=100)


@given(any_names, st.sets(any_names, max_size=5))
def test_derived_name_is_legal_and_free(vendor_name, names_in_use):
    derived = model_names.propose(vendor_name, names_in_use, vendor="bramble-pharmacy")

    assert model_names.is_legal(derived)
    assert derived.lower() not in {name.lower() for name in names_in_use}
    assert model_names.propose(vendor_name, names_in_use, vendor="bramble-pharmacy") == derived


@given(st.lists(wire_names, unique=True, max_size=8), st.randoms())
def test_aliases_are_reversible_legal_and_do_not_depend_on_the_order(wires, random):
    aliases = model_names.aliases(wires)

    assert list(aliases) == wires
    assert len({alias.lower() for alias in aliases.values()}) == len(wires)
    assert all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,63}", alias) for alias in aliases.values())
    shuffled = random.sample(wires, len(wires))
    assert model_names.aliases(shuffled) == aliases


@given(st.lists(wire_names, unique=True, max_size=8))
def test_an_alias_never_spells_another_parameter(wires):
    aliases = model_names.aliases(wires)

    assert all(alias == wire or alias not in wires for wire, alias in aliases.items())


def test_legal_name_is_kept():
    assert model_names.derive("look_up-Weather") == "look_up-Weather"


@pytest.mark.parametrize(
    ("vendor_name", "derived"),
    [
        ("Lookup Weather", "Lookup_Weather"),
        ("città.oggi", "citta_oggi"),
        ("9 lives", "_9_lives"),
        ("-dash", "_-dash"),
        ("天气", "TianQi"),
        ("获取天气 2", "HuoQuTianQi_2"),
        ("прогноз погоды", "prognoz_pogody"),
        ("날씨", "NalSsi"),
        ("straße", "strasse"),
        ("cafe\u0301", "cafe"),
        ("☂ → ☀", "tool"),
        ("", "tool"),
        ("a" * 300, "a" * 64),
        ("line\n", "line"),
    ],
)
def test_illegal_name_gets_a_readable_one(vendor_name, derived):
    assert model_names.derive(vendor_name) == derived


def test_names_that_differ_by_case_get_apart():
    aliases = model_names.aliases(["City", "city"])

    assert aliases["City"] == "City"
    assert re.fullmatch("city_[0-9a-f]{8}", aliases["city"])


def test_names_that_claim_one_key_all_get_a_tail():
    aliases = model_names.aliases(["Due date", "Due-date"])

    assert all(re.fullmatch("Due_date_[0-9a-f]{8}", alias) for alias in aliases.values())


@pytest.mark.parametrize("name", ["", "9a", "a b", "a.b", "a\n", "é", "x" * 65])
def test_illegal_names_are_seen(name):
    assert not model_names.is_legal(name)


@pytest.mark.parametrize(
    ("wished_name", "names_in_use", "proposed"),
    [
        ("get_store_hours", [], "get_store_hours"),
        ("get_store_hours", ["Get_Store_Hours"], "bramble_get_store_hours"),
        ("get store hours", ["get_store_hours"], "bramble_get_store_hours"),
        ("bramble_hours", ["bramble_hours"], "bramble_pharmacy_bramble_hours"),
        ("hours", ["hours", "bramble_hours", "bramble_pharmacy_hours"], "hours_2"),
        ("hours", ["hours", "bramble_hours", "bramble_pharmacy_hours", "hours_2"], "hours_3"),
        ("a" * 64, ["a" * 64], "bramble_" + "a" * 56),
    ],
)
def test_a_name_that_is_taken_becomes_one_that_a_person_can_read(wished_name, names_in_use, proposed):
    assert model_names.propose(wished_name, names_in_use, vendor="bramble-pharmacy") == proposed
