"""Connecting by address alone: the page, its background work and the saved endpoint."""

import json
from uuid import UUID

import pytest

from catalog.models import Endpoint
from catalog.vendors import detection_jobs
from people.models import Role
from tests.factories import make_user
from tests.hostile_vendor import HostileVendor, reply
from tests.pages import signed_in

pytestmark = pytest.mark.django_db(transaction=True)
NEW, DETECT = "/endpoints/new/", "/endpoints/new/detect/"
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Weather", "version": "1"},
    "paths": {"/sky": {"get": {"operationId": "sky", "responses": {"200": {"description": "ok"}}}}},
}
BODY = json.dumps(DOCUMENT)


@pytest.fixture
def vendor():
    with HostileVendor(reply(BODY.encode())) as vendor:
        yield vendor


@pytest.fixture
def admin():
    return signed_in(Role.ADMIN)


def begin_detection(admin, source: str) -> tuple[str, UUID]:
    """The address of the page after the button, and the id of the detection."""
    page = admin.post(DETECT, {"url": source})
    assert page.status_code == 302, page.context["refused_source"]
    return page.headers["Location"], UUID(page.headers["Location"].partition("detection=")[2])


def test_the_page_shows_progress_and_then_the_result_in_a_sentence(admin, vendor):
    address, job_id = begin_detection(admin, f" {vendor.url}/openapi.json ")
    waiting = admin.get(address)
    assert waiting.context["detection"].state == "queued"
    assert 'id="detection"' in admin.get(address, headers={"HX-Request": "true"}).content.decode()

    detection_jobs.perform(job_id)
    assert admin.get(address, headers={"HX-Request": "true"}).headers["HX-Refresh"] == "true"
    page = admin.get(address)
    assert page.context["sentence"] == "OpenAPI document Weather, 1 tool"
    form = page.context["form"]
    assert (form["protocol"].value(), form["vendor_name"].value()) == ("openapi", "Weather")
    assert page.context["preview"].tools == 1


def filled(page, **more: str) -> dict[str, str]:
    """What the browser sends for the form of the page without a change."""
    form = page.context["form"]
    names = ("detection", "url", "vendor_name", "protocol", "credential", "interval_minutes")
    return {name: str(form[name].value() or "") for name in names} | more


def test_the_detected_endpoint_is_saved_with_one_more_button(admin, vendor):
    address, job_id = begin_detection(admin, f"{vendor.url}/openapi.json")
    detection_jobs.perform(job_id)
    answer = admin.post(NEW, filled(admin.get(address)))
    assert answer.status_code == 302
    endpoint = Endpoint.objects.live().get()
    assert (endpoint.protocol, endpoint.url) == ("openapi", f"{vendor.url}/openapi.json")
    assert endpoint.vendor.name == "Weather"


@pytest.mark.parametrize("servers", [[], [{"url": "SERVER/api"}]], ids=["no server", "server"])
def test_a_pasted_document_works_the_same_way(admin, vendor, servers):
    text = json.dumps(DOCUMENT | {"servers": servers}, indent=1).replace("SERVER", vendor.url)
    address, job_id = begin_detection(admin, text)
    detection_jobs.perform(job_id)
    page = admin.get(address)
    assert page.context["sentence"].startswith("OpenAPI document Weather")
    assert "operationId" not in page.content.decode()
    more = {} if servers else {"url": f"{vendor.url}/api"}
    assert admin.post(NEW, filled(page) | more).status_code == 302
    endpoint = Endpoint.objects.live().get()
    assert endpoint.url == f"{vendor.url}/api"
    assert "document" in endpoint.settings


def test_a_wrong_guess_can_be_overruled(admin, vendor):
    address, job_id = begin_detection(admin, f"{vendor.url}/openapi.json")
    detection_jobs.perform(job_id)
    admin.post(NEW, filled(admin.get(address), protocol="oxp"))
    assert Endpoint.objects.live().get().protocol == "oxp"


@pytest.mark.parametrize("source", ["", "ftp://a.example/", "https://user:pass@a.example/", "https://"])
def test_an_unusable_address_is_refused_at_once(admin, source):
    page = admin.post(DETECT, {"url": source})
    assert page.status_code == 200
    assert page.context["refused_source"]
    assert "user:pass" not in page.content.decode()


def test_an_address_without_a_scheme_means_https():
    actor = make_user(Role.ADMIN)
    job_id = detection_jobs.begin("a.example/mcp", actor=actor)
    assert detection_jobs.find(job_id, actor=actor).address == "https://a.example/mcp"


def test_another_administrator_does_not_see_a_detection(admin, vendor):
    address, job_id = begin_detection(admin, f"{vendor.url}/openapi.json")
    detection_jobs.perform(job_id)
    assert "detection" not in signed_in(Role.ADMIN).get(address).context


def test_a_detection_is_performed_once(admin, vendor):
    _, job_id = begin_detection(admin, f"{vendor.url}/openapi.json")
    detection_jobs.perform(job_id)
    request_count = len(vendor.requests)
    detection_jobs.perform(job_id)
    assert len(vendor.requests) == request_count


def test_no_worker_is_reported(admin, monkeypatch):
    monkeypatch.setattr("core.wakes.wake_worker", lambda *arguments, **options: False)
    page = admin.post(DETECT, {"url": "https://a.example/"})
    assert page.context["refused_source"]
