import pytest

from catalog import search
from catalog.search import Query, spelling
from catalog.search.spelling import Slip
from catalog.search.words import typo_distance
from tests.factories import make_endpoint, make_signature, make_tool


def read_as(typed: str, **found_in: int) -> str | None:
    """Return the word for which a typed word is taken; `words`: the number of tools that contain each."""
    limit = spelling.edits_allowed(typed)
    edits = {word: typo_distance(typed, word, limit) for word in found_in}
    candidates = [word for word in found_in if spelling.may_mean(typed, word, edits[word])]
    return max(
        candidates,
        key=lambda word: spelling.likelihood(typed, word, edits[word], found_in[word]),
        default=None,
    )


@pytest.mark.parametrize(
    ("typed", "word", "how"),
    [
        ("adress", "address", Slip.DOUBLED),
        ("isssue", "issue", Slip.DOUBLED),
        ("customre", "customer", Slip.SWAPPED),
        ("forcast", "forecast", Slip.LEFT_OUT),
        ("hote", "hotel", Slip.LEFT_OUT),
        ("calandar", "calendar", Slip.VOWEL),
        ("invoive", "invoice", Slip.NEIGHBOUR),
        ("hotelk", "hotel", Slip.EXTRA),
        ("paris", "parts", Slip.OTHER),
        ("perscripton", "prescription", Slip.SEVERAL),
        ("weagher", "weather", Slip.NEIGHBOUR),
    ],
)
def test_each_slip_is_told_from_the_others(typed, word, how):
    assert spelling.slip(typed, word) == how


def test_one_slip_is_likelier_than_two_in_a_far_commoner_word():
    assert read_as("forcast", forecast=5, format=1_000) == "forecast"


def test_a_word_that_only_joins_others_is_never_meant():
    assert read_as("wether", weather=3, whether=500) == "weather"


def test_a_letter_left_out_is_likelier_than_one_too_many():
    assert read_as("customr", customer=10, custom=10) == "customer"


@pytest.mark.parametrize("typed", ["paris", "milan"])
def test_a_short_word_that_can_be_said_is_not_taken_for_another(typed):
    assert read_as(typed, parts=1_000, mplan=1_000) is None


def test_a_short_word_that_cannot_be_said_is_a_mistake():
    assert read_as("spkce", space=10) == "space"


def test_a_wrong_first_letter_with_another_mistake_makes_another_word():
    assert read_as("vacation", action=1_000) is None
    assert read_as("rpescription", prescription=10) == "prescription"


@pytest.mark.parametrize(
    ("typed", "word", "is_sure"),
    [
        ("forcast", "forecast", True),
        ("invozce", "invoice", True),
        ("spkce", "space", False),
        ("tuesday", "thursday", False),
    ],
)
def test_an_odd_mistake_is_no_sure_one(typed, word, is_sure):
    assert spelling.is_surely_meant(typed, word) is is_sure


@pytest.mark.django_db
def test_typos_find_what_was_meant_among_words_that_look_like_it():
    endpoint = make_endpoint()
    make_tool(
        make_signature("get_forecast", description="Weather by the hour for a customer"), endpoint=endpoint
    )
    for number in range(60):
        text = "A custom format, whether in parts or not"
        make_tool(make_signature(f"write_{number}", description=text, inputs=()), endpoint=endpoint)
    search.index_pending()
    for typed, intended in {"forcast": "forecast", "wether": "weather", "customr": "customer"}.items():
        page = search.search(Query(q=f"{typed} tool"))
        assert page.repaired == {typed: intended}
        assert page.rows[0]["name"] == "get_forecast"
    page = search.search(Query(q="weather in paris"))
    assert (page.repaired, page.unmatched) == ({}, ["paris"])
    assert [row["name"] for row in page.rows] == ["get_forecast"]
