import random
from urllib.parse import unquote

import pytest

from catalog.credentials import operations as credential_operations
from catalog.models import Endpoint, KnownPage, Tool
from catalog.vendors import operations as vendor_operations
from people.models import Role
from protocols.a2t.client import A2T
from tests.catalog.enumeration.test_enumeration import counts, run_enumeration
from tests.factories import make_endpoint, make_signature, make_user
from tests.vendor import Vendor, tool

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def endpoint(vendor: Vendor) -> Endpoint:
    return make_endpoint(url=vendor.url)


def oddities(run) -> tuple[list[str], list[str]]:
    return [note["code"] for note in run.notes], [rejection.code for rejection in run.rejections.all()]


def test_a_tool_listed_twice_is_noted_on_every_run(endpoint, vendor):
    vendor.listed[20] = tool(1)
    assert oddities(run_enumeration(endpoint)) == (["DUP_TOOL"], [])
    assert oddities(run_enumeration(endpoint)) == (["DUP_TOOL"], [])


def test_a_tool_that_was_in_conflict_is_taken_once_the_conflict_ends(endpoint, vendor):
    vendor.listed[20] = tool(1, description="Another user")
    assert oddities(run_enumeration(endpoint)) == ([], ["DUP_CONFLICT"])
    vendor.listed[20] = tool(21)
    assert oddities(run_enumeration(endpoint)) == ([], [])
    assert Tool.objects.filter(name="tool_1").exists()


def test_a_copy_of_a_tool_on_a_known_page_is_no_conflict(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[20] = tool(1)
    assert oddities(run_enumeration(endpoint)) == (["DUP_TOOL"], [])


def test_a_copy_of_a_tool_that_stands_on_a_later_known_page_is_no_conflict(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[0] = tool(25)
    assert oddities(run_enumeration(endpoint)) == (["DUP_TOOL"], [])


def test_a_conflict_with_a_tool_on_a_known_page_is_told(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[20] = tool(1, description="Another user")
    run = run_enumeration(endpoint)
    assert oddities(run) == ([], ["DUP_CONFLICT"])
    assert counts(run) == {"pages": 3, "seen": 24, "unchanged": 23, "withdrawn": 1, "rejected": 1}
    assert Tool.objects.get(name="tool_1").description == "Does thing 1."


def test_a_vendor_that_says_nothing_changed_is_believed(endpoint, vendor):
    vendor.etag = '"v1"'
    run_enumeration(endpoint)
    vendor.listed.append(tool(26))
    assert counts(run_enumeration(endpoint)) == {"pages": 3, "seen": 25, "unchanged": 25}


@pytest.mark.parametrize("change", ["url", "settings", "credential"])
def test_an_answer_to_another_question_is_not_remembered(endpoint, vendor, change):
    vendor.etag = '"v1"'
    run_enumeration(endpoint)
    vendor.listed.append(tool(26))
    changes = {"url": f"{vendor.url}tools", "settings": {"page_size": 7}}
    if change == "credential":
        changes["credential"] = credential_operations.create_credential(
            actor=make_user(Role.ADMIN), name="Key", kind="bearer", url=endpoint.url, secret="s3cret"
        )
    vendor_operations.update_endpoint(endpoint, actor=make_user(Role.ADMIN), **{change: changes[change]})
    assert counts(run_enumeration(endpoint)) == {"pages": 3, "seen": 26, "added": 1, "unchanged": 25}


def test_a_page_that_is_odd_every_time_does_not_rewrite_the_others(endpoint, vendor):
    vendor.listed[3] = tool(4, version=-1)
    run_enumeration(endpoint)
    before = list(KnownPage.objects.order_by("pk").values())
    assert len(before) == 2
    run_enumeration(endpoint)
    assert list(KnownPage.objects.order_by("pk").values()) == before


def test_long_cursors_in_any_script_are_remembered(endpoint, vendor):
    dice = random.Random(1)
    long = "".join(chr(dice.randrange(0x4E00, 0x9F00)) for _ in range(1_800))
    usual_answer = vendor.answer

    def script(number, document):
        if number == 1:
            document["paging"]["next"] = long

    def answer(path, query):
        if unquote(query.get("pageCursor", [""])[0]) == long:
            query["pageCursor"] = ["10"]
        return usual_answer(path, query)

    vendor.script, vendor.answer = script, answer
    assert counts(run_enumeration(endpoint)) == {"pages": 3, "seen": 25, "added": 25}
    assert counts(run_enumeration(endpoint)) == {"pages": 3, "seen": 25, "unchanged": 25}


def test_versions_that_a_vendor_numbers_stay_as_they_were_read(endpoint, vendor, monkeypatch):
    run_enumeration(endpoint)
    monkeypatch.setattr(A2T, "revision", 2)
    monkeypatch.setattr(A2T, "read", lambda self, document: make_signature("Read otherwise"))
    assert counts(run_enumeration(endpoint)) == {"pages": 3, "seen": 25, "unchanged": 25}
