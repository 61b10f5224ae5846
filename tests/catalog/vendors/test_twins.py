"""One address with several connections: a warning before, possible on purpose, no finding afterwards."""

import threading

import pytest
from django.db import connection

from catalog import twins
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Credential, Endpoint, Finding, Vendor
from catalog.models.runs import Trigger
from catalog.review import inspector, similar_names
from catalog.rules import policy
from catalog.rules.inspection import Alarm
from catalog.vendors import operations as vendor_operations
from people.models import Role
from tests.factories import make_endpoint, make_user, make_vendor
from tests.hostile_vendor import HostileVendor, json_reply
from tests.pages import signed_in, text_of
from tests.vendor import tool

pytestmark = pytest.mark.django_db
ROOT = "http://127.0.0.1:9/api"
URL = "/api/v1/endpoints/"


@pytest.fixture
def pharmacy() -> Endpoint:
    return make_endpoint(vendor=make_vendor(name="Bramble Pharmacy", slug="bramble"), url=ROOT)


def another(**fields: object) -> dict[str, object]:
    make_vendor(name="Copy", slug="copy")
    return {"vendor": "copy", "protocol": "a2t", "url": ROOT} | fields


@pytest.mark.parametrize(
    "url", [ROOT, f"{ROOT}/", f"{ROOT}/tools", f"{ROOT}/tools/", "HTTP://127.0.0.1:9/api/tools"]
)
def test_address_that_is_connected_is_told_over_rest(pharmacy, admin_api, url):
    answer = admin_api.post(URL, another(url=url))

    assert (answer.status_code, answer.json()["code"]) == (409, "already_connected")
    assert answer.json()["message"].startswith("Already connected as Bramble Pharmacy.")
    assert "with another credential" in answer.json()["fields"]["url"]
    assert Endpoint.objects.count() == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"url": "http://127.0.0.1:9/other"},
        {"url": f"{ROOT}?tenant=2"},
        {"protocol": "oxp"},
        {"url": ROOT + "/v1"},
    ],
)
def test_another_address_is_connected_without_a_word(pharmacy, admin_api, changed):
    assert admin_api.post(URL, another(**changed)).status_code == 201


def test_second_connection_is_made_on_purpose_and_with_another_credential(pharmacy, admin_api):
    payload = another(again=True)
    answer = admin_api.post(URL, payload)
    assert answer.status_code == 409
    assert "with this credential" in answer.json()["message"]

    key = {"name": "Second", "kind": "bearer", "url": ROOT, "secret": "another-one-99"}
    credential = admin_api.post("/api/v1/credentials/", key).json()["id"]
    assert admin_api.post(URL, payload | {"credential": credential, "again": False}).status_code == 409
    assert admin_api.post(URL, payload | {"credential": credential}).status_code == 201


def test_preview_over_rest_names_those_that_stand_at_the_address(pharmacy, admin_api):
    payload = {"protocol": "a2t", "url": f"{ROOT}/tools"}
    (known_endpoint,) = admin_api.post(f"{URL}preview/", payload).json()["already_connected"]
    assert known_endpoint.pop("message").startswith(
        "Already connected as Bramble Pharmacy. It is read with this cred"
    )
    assert known_endpoint == {
        "endpoint": pharmacy.pk,
        "vendor": "bramble",
        "name": "",
        "credential": None,
        "is_same": True,
    }

    key = {"name": "Second", "kind": "bearer", "url": ROOT, "secret": "another-one-99"}
    other = {"credential": admin_api.post("/api/v1/credentials/", key).json()["id"]}
    (known_endpoint,) = admin_api.post(f"{URL}preview/", payload | other).json()["already_connected"]
    assert (known_endpoint["is_same"], known_endpoint["message"]) == (
        False,
        "Already connected as Bramble Pharmacy. Use that endpoint, or connect the address a second time on "
        "purpose.",
    )
    assert admin_api.post(URL, another(**other, again=True)).status_code == 201
    connected = admin_api.post(f"{URL}preview/", payload | other).json()["already_connected"]
    assert [row["is_same"] for row in connected] == [True, False], (
        "what cannot be connected again comes first"
    )


def test_preview_of_an_address_of_its_own_names_none(pharmacy, admin_api):
    for changed in ({"url": f"{ROOT}/v1"}, {"protocol": "oxp"}):
        payload = {"protocol": "a2t", "url": ROOT} | changed
        assert admin_api.post(f"{URL}preview/", payload).json()["already_connected"] == []


def test_endpoint_does_not_move_to_a_taken_address_unasked(pharmacy, admin_api):
    moved = make_endpoint(url="http://127.0.0.1:9/other")
    answer = admin_api.patch(f"{URL}{moved.pk}/", {"url": f"{ROOT}/tools"})
    assert (answer.status_code, answer.json()["code"]) == (409, "already_connected")
    assert admin_api.patch(f"{URL}{pharmacy.pk}/", {"url": f"{ROOT}/tools"}).status_code == 200

    page = signed_in(Role.ADMIN).post(
        f"/endpoints/{moved.pk}/", {"url": ROOT, "interval_minutes": "60", "credential": ""}
    )
    assert "Already connected as Bramble Pharmacy" in text_of(page)
    assert f'href="/endpoints/{pharmacy.pk}/"' in page.content.decode()


def test_page_says_so_and_offers_both_ways(pharmacy):
    admin = signed_in(Role.ADMIN)
    form = {"vendor": "", "vendor_name": "Copy", "protocol": "a2t", "url": f"{ROOT}/tools", "credential": ""}
    page = admin.post("/endpoints/new/", form | {"interval_minutes": "60"})
    assert "Already connected as Bramble Pharmacy" in text_of(page)
    assert f'href="/endpoints/{pharmacy.pk}/"' in page.content.decode()
    assert 'name="again"' in page.content.decode()
    assert not Vendor.objects.filter(name="Copy").exists()

    payload = form | {"interval_minutes": "60"}
    page = admin.post("/endpoints/new/preview/", payload, headers={"HX-Request": "true"})
    assert "Already connected as Bramble Pharmacy" in text_of(page)
    page = admin.get("/endpoints/new/")
    assert 'name="again"' not in page.content.decode()

    new = {"credential": "new", "kind": "bearer", "secret": "another-one-99", "interval_minutes": "60"}
    answer = admin.post("/endpoints/new/", form | new | {"again": "on"})
    assert answer.status_code == 302
    assert Endpoint.objects.count() == 2
    assert Credential.objects.get().name == "Copy"


def test_removed_endpoint_holds_no_address(pharmacy, admin_api):
    vendor_operations.remove_endpoint(pharmacy, actor=make_user(Role.ADMIN))
    assert admin_api.post(URL, another()).status_code == 201


@pytest.mark.django_db(transaction=True)
def test_two_who_connect_one_address_at_once_do_not_both(transactional_db):
    ada, vendor = make_user(Role.ADMIN), make_vendor()
    outcomes = []

    def connect() -> None:
        try:
            outcomes.append(
                vendor_operations.create_endpoint(actor=ada, vendor=vendor, protocol="a2t", url=ROOT)
            )
        except Exception as error:  # noqa: BLE001 - whichever it is, the test looks at it
            outcomes.append(error)
        connection.close()

    threads = [threading.Thread(target=connect) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, Endpoint) for outcome in outcomes) == 1


def run_enumeration(endpoint: Endpoint) -> None:
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    inspector.inspect_pending(run.endpoint_id)


@pytest.mark.django_db(transaction=True)
def test_copies_of_one_address_raise_no_alarm_over_equal_names(monkeypatch):
    listed_tools = [tool(1, name="lookup_weather"), tool(2, name="send_money")]
    with HostileVendor(json_reply({"items": listed_tools, "paging": {"pageLimit": 30}})) as vendor:
        first = make_endpoint(vendor=make_vendor(name="One"), url=vendor.url)
        run_enumeration(first)
        used = list(first.tools.values_list("pk", flat=True))
        monkeypatch.setattr(similar_names, "USED_TOOLS", [lambda: used])
        copy = make_endpoint(vendor=make_vendor(name="Two"), url=f"{vendor.url}/tools")
        run_enumeration(copy)
    assert copy.tools.count() == 2
    assert not Finding.objects.filter(
        code__in=["COLLISION", "LOOK_ALIKE", "NEAR_MISS", "OTHER_TOOL"]
    ).exists()

    with HostileVendor(json_reply({"items": listed_tools, "paging": {"pageLimit": 30}})) as stranger:
        staging = make_endpoint(vendor=make_vendor(name="Three"), url=stranger.url)
        run_enumeration(staging)
    # The same tools at another address are one note.
    assert list(Finding.objects.filter(endpoint=staging).values_list("code", "state")) == [
        ("SAME_TOOLS", "noted")
    ]

    reworded = [tool(1, name="lookup_weather", description="Another weather."), tool(2, name="send_m0ney")]
    with HostileVendor(json_reply({"items": reworded, "paging": {"pageLimit": 30}})) as stranger:
        other = make_endpoint(vendor=make_vendor(name="Four"), url=stranger.url)
        run_enumeration(other)
    findings = Finding.objects.filter(endpoint=other, code="COLLISION")
    assert dict(findings.values_list("tool__name", "state")) == {
        "lookup_weather": "noted",
        "send_m0ney": "open",
    }
    held_finding = Finding.objects.get(endpoint=other, code="HELD")
    assert held_finding.tool.name == "send_m0ney"
    assert "its name is or looks like that of another vendor's tool" in held_finding.message
    assert "its text raised" not in held_finding.message


ABOUT_NAME = Alarm("COLLISION", "high", "")
ABOUT_TEXT = Alarm("STEERING", "high", "")


@pytest.mark.parametrize(
    ("alarms", "reasons"),
    [
        ([ABOUT_NAME], ("its name is or looks like that of another vendor's tool",)),
        ([ABOUT_TEXT], ("its text raised a severe alarm",)),
        (
            [ABOUT_TEXT, ABOUT_NAME],
            ("its text raised a severe alarm", "its name is or looks like that of another vendor's tool"),
        ),
    ],
)
def test_alarm_about_a_name_is_called_that(alarms, reasons):
    stop = policy.apply_policy(policy.with_defaults({}), policy.classes((), alarms), alarms)
    assert stop is not None
    assert stop.reasons == reasons


def test_address_of_an_endpoint_has_one_spelling():
    def spelled(protocol: str, url: str) -> str:
        return twins.address_of(Endpoint(protocol=protocol, url=url))

    assert spelled("a2t", "http://127.0.0.1:80/tools") == "http://127.0.0.1"
    assert spelled("mcp", "http://127.0.0.1/tools") == "http://127.0.0.1/tools"
    assert spelled("a2t", "nowhere") == ""
