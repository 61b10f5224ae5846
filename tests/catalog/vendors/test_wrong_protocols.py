"""An address with the wrong protocol: named, corrected on the run's page, read a second time."""

import json

import pytest
from django.urls import reverse

from catalog.credentials import operations as credential_operations
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Run, Tool, Vendor
from catalog.models.runs import Trigger
from people.models import AuditEntry, Role
from tests.factories import make_endpoint, make_tool, make_user
from tests.hostile_vendor import HostileVendor, reply
from tests.pages import signed_in

pytestmark = pytest.mark.django_db(transaction=True)
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Weather", "version": "1"},
    "paths": {"/sky": {"get": {"operationId": "sky", "responses": {"200": {"description": "ok"}}}}},
}


def speaks_openapi(line, request) -> bool:
    """The document to everybody; anything else wants a credential."""
    if request.path == "/openapi.json":
        return reply(json.dumps(DOCUMENT).encode())(line, request)
    return reply(b"{}", status=401)(line, request)


def wants_credential(line, request) -> bool:
    return reply(b"{}", status=401)(line, request)


def begin(endpoint: Endpoint) -> Run:
    """Begin the first run as an administrator does."""
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON, actor=make_user(Role.ADMIN))
    return enumeration_runs.perform(run.pk)


@pytest.fixture
def vendor():
    with HostileVendor(speaks_openapi) as vendor:
        yield vendor


@pytest.fixture
def endpoint(vendor) -> Endpoint:
    return make_endpoint(url=f"{vendor.url}/openapi.json", protocol="a2t")


def test_a_run_names_the_protocol_that_the_address_speaks(endpoint):
    run = begin(endpoint)
    assert (run.error_code, run.spoken_protocol) == ("WRONG_PROTOCOL", "openapi")


def test_the_protocol_is_changed_on_the_page_of_the_run(endpoint):
    run, page = begin(endpoint), signed_in(Role.ADMIN)
    page_html = page.get(f"/runs/{run.pk}/").content.decode()
    assert 'name="protocol" value="openapi"' in page_html
    answer = page.post(f"/runs/{run.pk}/protocol/", {"protocol": "openapi"})
    following = Run.objects.latest("pk")
    assert answer.headers["Location"] == f"/runs/{following.pk}/"
    enumeration_runs.perform(following.pk)
    assert Tool.objects.get().name == "sky"
    assert AuditEntry.objects.filter(action="edit", after__protocol="openapi").exists()


def test_a_preview_names_it_and_offers_to_choose_it(vendor):
    form = {"protocol": "a2t", "url": f"{vendor.url}/openapi.json", "interval_minutes": 60}
    answer = signed_in(Role.ADMIN).post(reverse("endpoint-preview"), form | {"vendor_name": "Sky"})
    assert answer.context["preview"].error["code"] == "WRONG_PROTOCOL"
    page_html = answer.content.decode()
    assert 'name="read_as" value="openapi"' in page_html


def test_the_offer_of_a_preview_chooses_the_protocol_and_keeps_what_was_typed(vendor):
    form = {
        "protocol": "a2t",
        "url": f"{vendor.url}/openapi.json",
        "vendor_name": "Sky",
        "read_as": "openapi",
    }
    page = signed_in(Role.ADMIN).post("/endpoints/new/", form)
    assert (page.status_code, page.context["form"]["protocol"].value()) == (200, "openapi")
    assert page.context["form"]["vendor_name"].value() == "Sky"
    assert not Endpoint.objects.exists()


def test_an_address_that_wants_a_credential_in_every_protocol_is_told_as_that(vendor):
    vendor.script = wants_credential
    run = begin(make_endpoint(url=f"{vendor.url}/", protocol="a2t"))
    assert (run.error_code, run.spoken_protocol) == ("AUTH", "")
    page_html = signed_in(Role.ADMIN).get(f"/runs/{run.pk}/").content.decode()
    assert "/credentials/new/?url=" in page_html
    assert f"endpoint={run.endpoint_id}" in page_html


def test_a_key_that_is_entered_for_an_endpoint_is_used_at_once(vendor):
    vendor.script = wants_credential
    endpoint = make_endpoint(url=f"{vendor.url}/", protocol="a2t")
    payload = {"name": "Key", "kind": "bearer", "url": endpoint.url, "secret": "a long secret of ours"}
    answer = signed_in(Role.ADMIN).post(f"/credentials/new/?endpoint={endpoint.pk}", payload)
    endpoint.refresh_from_db()
    assert endpoint.credential.name == "Key"
    assert answer.headers["Location"] == f"/runs/{Run.objects.latest('pk').pk}/"


def test_a_key_replaces_none_that_an_endpoint_has(vendor):
    url = f"{vendor.url}/"
    had = credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="Ours", kind="bearer", url=url, secret="another long secret"
    )
    endpoint = make_endpoint(url=url, credential=had)
    payload = {"name": "Other", "kind": "bearer", "url": endpoint.url, "secret": "a long secret of ours"}
    signed_in(Role.ADMIN).post(f"/credentials/new/?endpoint={endpoint.pk}", payload)
    endpoint.refresh_from_db()
    assert endpoint.credential == had


def test_an_address_that_was_read_before_is_not_tried_in_other_protocols(endpoint, vendor):
    Endpoint.objects.update(last_success_at="2026-01-01T00:00:00Z")
    request_count = len(vendor.requests)
    run = begin(Endpoint.objects.get())
    assert run.error_code == "AUTH"
    assert {request.path for request in vendor.requests[request_count:]} == {"/openapi.json/tools"}


def test_the_protocol_of_an_endpoint_with_tools_stays(endpoint):
    make_tool(endpoint=endpoint)
    page = signed_in(Role.ADMIN)
    run = begin(endpoint)
    assert "other-protocol" not in page.get(f"/runs/{run.pk}/").content.decode()
    page.post(f"/runs/{run.pk}/protocol/", {"protocol": "openapi"})
    endpoint.refresh_from_db()
    assert endpoint.protocol == "a2t"


def test_a_second_try_finds_the_vendor_that_the_first_has_left(vendor):
    page = signed_in(Role.ADMIN)
    form = {"url": f"{vendor.url}/openapi.json", "vendor_name": "Sky", "interval_minutes": 60}
    for protocol in ("a2t", "openapi"):
        page.post("/endpoints/new/", form | {"protocol": protocol})
    assert Vendor.objects.get().name == "Sky"
    assert set(Endpoint.objects.values_list("protocol", flat=True)) == {"a2t", "openapi"}
