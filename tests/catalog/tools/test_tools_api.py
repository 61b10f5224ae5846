import pytest
from rest_framework.test import APIClient

from catalog import search
from tests.factories import (
    make_endpoint,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_vendor,
    make_version,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> APIClient:
    client = APIClient()
    client.force_login(make_user("viewer"))
    return client


@pytest.fixture
def pharmacy():
    endpoint = make_endpoint(vendor=make_vendor(name="Bramble Pharmacy", slug="bramble"))
    for name, description, tags in [
        ("refill_prescription", "Orders a refill for pickup at a store.", ("prescriptions",)),
        ("get_refill_status", "Says how far a refill is.", ("prescriptions",)),
        ("find_stores", "Stores near a place, and when they open.", ("stores",)),
    ]:
        signature = make_signature(
            name, description=description, tags=tags, inputs=(make_parameter("rx_number"),)
        )
        make_tool(signature, endpoint=endpoint)
    return endpoint


@pytest.fixture
def weather():
    endpoint = make_endpoint(vendor=make_vendor(name="Fairweather", slug="fairweather"))
    for number in range(7):
        make_tool(make_signature(f"forecast_{number}", description="Weather for a place."), endpoint=endpoint)
    return endpoint


def names(client: APIClient, query: str = "", **more) -> list[str]:
    return [row["name"] for row in client.get(f"/api/v1/tools/?{query}", more).json()["results"]]


@pytest.mark.parametrize("is_indexed", [True, False], ids=["indexed", "recorded a moment ago"])
@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("refill a prescription", "refill_prescription"),
        ("RefillPrescription", "refill_prescription"),
        ("how do I know how far my refill is?", "get_refill_status"),
        ("stores", "find_stores"),
    ],
)
def test_a_question_finds_the_tool_it_is_about(client, pharmacy, weather, question, first, is_indexed):
    if is_indexed:
        search.index_pending()
    assert names(client, q=question)[0] == first


def test_a_typo_is_repaired_and_said(client, pharmacy):
    search.index_pending()
    answer = client.get("/api/v1/tools/", {"q": "prescripton"}).json()
    assert answer["results"][0]["name"] == "refill_prescription"
    assert answer["repaired"] == {"prescripton": "prescription"}


def test_a_misspelt_word_can_be_searched_as_it_is(client, pharmacy):
    search.index_pending()
    answer = client.get("/api/v1/tools/", {"q": "prescripton", "as_typed": "true"}).json()
    assert (answer["repaired"], answer["unmatched"]) == ({}, ["prescripton"])
    assert client.get("/api/v1/tools/", {"as_typed": "yes"}).json()["fields"].keys() == {"as_typed"}


@pytest.mark.parametrize("question", ["rail", "staple"])
def test_a_word_that_a_language_has_is_not_repaired(client, pharmacy, question):
    make_tool(make_signature("mail_stable", description="Mail from a stable."))
    search.index_pending()
    answer = client.get("/api/v1/tools/", {"q": question}).json()
    assert (answer["repaired"], answer["unmatched"]) == ({}, [question])


@pytest.mark.parametrize(
    ("question", "first", "word"),
    [
        ("drugstore outlets", "find_stores", "outlets"),
        ("Rezept abholen", "refill_prescription", "Rezept"),
        ("renouveler une ordonnance", "refill_prescription", "ordonnance"),
        ("receta del médico", "refill_prescription", "receta"),
        ("处方", "refill_prescription", "处方"),
    ],
)
def test_everyday_words_find_a_tool_and_are_named(client, pharmacy, question, first, word):
    search.index_pending()
    answer = client.get("/api/v1/tools/", {"q": question}).json()
    assert answer["results"][0]["name"] == first
    assert word in answer["results"][0]["why"]["job_words"]
    assert word not in answer["unmatched"]


def test_a_row_states_why_it_was_found(client, pharmacy):
    search.index_pending()
    row = client.get("/api/v1/tools/", {"q": "orders a refill"}).json()["results"][0]
    assert row["why"] == {"name": ["refill"], "words": ["orders"], "job_words": [], "meaning": None}
    assert client.get("/api/v1/tools/").json()["results"][0]["why"] is None


def test_a_row_names_the_word_that_was_meant(client, pharmacy):
    search.index_pending()
    answer = client.get("/api/v1/tools/", {"q": "Perscription"}).json()
    assert answer["repaired"] == {"perscription": "prescription"}
    assert answer["results"][0]["why"]["name"] == ["prescription"]


@pytest.mark.parametrize(
    ("question", "fits_badly"),
    [
        ("refill a prescription", False),
        ("refill_prescription", False),
        ("stores near me", False),
        ("knit a jumper for the dog near a fireplace", True),
        ("zebra", True),
        ("", False),
    ],
)
def test_a_question_that_nothing_answers_is_marked(client, pharmacy, question, fits_badly):
    search.index_pending()
    assert client.get("/api/v1/tools/", {"q": question}).json()["fits_badly"] is fits_badly


def test_words_that_no_tool_holds_are_named(client, pharmacy):
    search.index_pending()
    answer = client.get("/api/v1/tools/", {"q": "refill zebra"}).json()
    assert answer["results"]
    assert answer["unmatched"] == ["zebra"]


def test_a_row_holds_what_the_contract_says(client, pharmacy):
    row = client.get("/api/v1/tools/").json()["results"][0]
    contract = "id tool_id name title description vendor endpoint protocol version ordinal status tags tokens"
    assert set(contract.split()) <= row.keys()
    assert (row["vendor"], row["version"], row["ordinal"]) == ("bramble", "1", 1)


@pytest.mark.parametrize("sort", ["", "name", "-changed", "vendor", "tokens", "-tokens"])
@pytest.mark.parametrize("question", ["", "weather forecast refill stores"])
def test_pages_bring_every_tool_once_forwards_and_back(client, pharmacy, weather, sort, question):
    search.index_pending()
    query = f"q={question}" + (f"&sort={sort}" if sort else "")
    everything = names(client, query)
    assert len(everything) == 10
    url, forwards, pages = f"/api/v1/tools/?limit=3&{query}", [], []
    while url:
        answer = client.get(url).json()
        pages.append([row["name"] for row in answer["results"]])
        forwards += pages[-1]
        url, last = answer["next"], answer
    assert forwards == everything
    assert [row["name"] for row in client.get(last["previous"]).json()["results"]] == pages[-2]


def test_filters_narrow_together(client, pharmacy, weather):
    search.index_pending()
    assert len(names(client, "vendor=bramble")) == 3
    assert len(names(client, "vendor=bramble&vendor=fairweather")) == 10
    assert names(client, f"vendor=bramble&tag=stores&protocol={pharmacy.protocol}") == ["find_stores"]
    assert names(client, f"endpoint={pharmacy.pk}&tag=stores&q=open") == ["find_stores"]
    assert names(client, "vendor=fairweather&q=refill") == []


def test_a_version_narrows_to_the_tools_whose_current_version_has_that_name(client, pharmacy):
    make_version(pharmacy.tools.get(name="find_stores"), label="2.0")
    search.index_pending()
    assert names(client, "version=2.0") == ["find_stores"]
    assert names(client, "version=2.0&q=stores") == ["find_stores"]
    assert sorted(names(client, "version=1")) == ["get_refill_status", "refill_prescription"]
    assert names(client, "version=3") == names(client, "version=2.0&tag=prescriptions") == []


def test_withdrawn_tools_can_be_left_out_and_asked_for(client, pharmacy):
    search.index_pending()
    tool = pharmacy.tools.get(name="find_stores")
    tool.status = "withdrawn"
    tool.save()
    assert names(client, "status=withdrawn") == ["find_stores"]
    assert "find_stores" not in names(client, "status=active")
    assert names(client, "status=withdrawn&q=stores") == ["find_stores"]


def test_tools_of_a_removed_endpoint_are_gone(client, pharmacy):
    from django.utils import timezone

    search.index_pending()
    pharmacy.removed_at = timezone.now()
    pharmacy.save()
    assert names(client) == []
    assert names(client, q="refill") == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("vendor=nobody", "vendor"),
        ("protocol=smoke", "protocol"),
        ("status=lost", "status"),
        ("sort=colour", "sort"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("endpoint=-1", "endpoint"),
        ("vendor=", "vendor"),
        ("vendor=bramble&vendor=", "vendor"),
        ("protocol=", "protocol"),
        ("tag=", "tag"),
        ("status=", "status"),
        ("endpoint=", "endpoint"),
        ("sort=", "sort"),
        ("limit=", "limit"),
        ("cursor=", "cursor"),
        ("endpoint=99999999999999999999", "endpoint"),
    ],
)
def test_an_unknown_filter_is_refused_by_name(client, pharmacy, query, field):
    answer = client.get(f"/api/v1/tools/?{query}")
    assert answer.status_code == 400
    assert field in answer.json()["fields"]


def test_a_cursor_of_another_order_is_refused(client, weather):
    cursor = client.get("/api/v1/tools/?limit=2").json()["next"].partition("cursor=")[2]
    assert client.get(f"/api/v1/tools/?sort=tokens&cursor={cursor}").json()["code"] == "invalid_cursor"
    assert client.get("/api/v1/tools/?cursor=nonsense").json()["code"] == "invalid_cursor"


@pytest.mark.parametrize(
    "question", ["%", "_", "'", '"', "\\", "  ", "🙂", "処方箋", "a" * 3000, "-refill", "OR", "IT"]
)
def test_odd_questions_are_answered(client, pharmacy, question):
    search.index_pending()
    assert client.get("/api/v1/tools/", {"q": question}).status_code == 200


def test_a_list_costs_the_same_however_long_it_is(client, weather, django_assert_max_num_queries):
    search.index_pending()
    # One counts how much of the catalog is indexed and inspected, one whether the index may count the list,
    # and one finds vendors with several endpoints.
    with django_assert_max_num_queries(8):
        names(client)
    with django_assert_max_num_queries(11):
        names(client, q="weather forcast", vendor="fairweather")


def test_facets_are_counted_on_request(client, pharmacy):
    search.index_pending()

    page = client.get("/api/v1/tools/?facets=1").json()

    assert "facets" not in client.get("/api/v1/tools/").json()
    assert sum(each["count"] for each in page["facets"]["vendor"]) == page["count"] == len(page["results"])
    assert set(page["facets"]) == {
        "changed_since",
        *("vendor", "protocol", "tag", "effect", "requirement", "used", "kind", "status"),
    }
    assert client.get("/api/v1/tools/?facets=2").json()["fields"].keys() == {"facets"}


def test_tools_are_narrowed_by_several_values_and_sorted_by_use(client, pharmacy):
    search.index_pending()
    used = make_pin().tool

    assert names(client, "used=true&used=false", status="active") == names(client, status="active")
    assert names(client, "used=true") == [used.name]
    assert names(client, "sort=-used")[0] == used.name
    assert client.get("/api/v1/tools/?effect=nonsense").json()["fields"].keys() == {"effect"}
    assert names(client, "changed_since=day") == names(client)
    assert names(client, "changed_since=2999-01-01") == []
    assert client.get("/api/v1/tools/?changed_since=never").json()["fields"].keys() == {"changed_since"}
