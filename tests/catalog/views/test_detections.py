"""Connecting by address alone: the page, its background work and the saved endpoint."""

import json
import time
from uuid import UUID

import pytest

from catalog.models import Endpoint
from catalog.vendors import detection_jobs
from catalog.vendors.detection import Detection
from core import redis_client, wakes
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
    """Return the form of the page as the browser sends it without a change."""
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
    assert page.status_code == 400
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


@pytest.mark.parametrize("source", ["https://a.example/", BODY], ids=["address", "document"])
def test_a_detection_is_refused_at_once_if_its_message_is_not_sent(admin, monkeypatch, source):
    monkeypatch.setattr("core.wakes.count_wakes", lambda task, queue: wakes.MAX_WAKES)
    before = stored_parts()
    page = admin.post(DETECT, {"url": source})
    assert page.status_code == 503
    assert page.context["refused_source"]
    assert stored_parts() == before


def stored_parts() -> set[str]:
    return set(redis_client.client().scan_iter("pegboard:detections:*"))


def test_a_failure_of_the_detection_is_shown_at_once(admin, monkeypatch):
    def fail(address, report):
        report("mcp", 0)
        raise LookupError("broken")

    address, job_id = begin_detection(admin, "https://a.example/")
    monkeypatch.setattr("catalog.vendors.detection.detect_address", fail)
    detection_jobs.perform(job_id)
    page = admin.get(address)
    assert page.context["detected"].error["code"] == "DETECTION_FAILED"
    assert "broken" not in page.content.decode()


def test_the_time_of_a_worker_begins_when_it_begins(admin, monkeypatch):
    actor = make_user(Role.ADMIN)
    job_id = detection_jobs.begin("https://a.example/", actor=actor)
    states = []

    def detect(address, report):
        states.append(detection_jobs.find(job_id, actor=actor))
        return Detection()

    monkeypatch.setattr("catalog.vendors.detection.detect_address", detect)
    queued = detection_jobs.find(job_id, actor=actor)
    later = time.time() + detection_jobs.LOST_AFTER_SECONDS + 1
    monkeypatch.setattr(detection_jobs.time, "time", lambda: later)
    assert queued.is_lost
    detection_jobs.perform(job_id)
    assert [(state.state, state.is_lost) for state in states] == [("running", False)]


@pytest.mark.parametrize("url", ["https://[", "https://", "http://:80", 5])
def test_a_document_with_an_unusable_server_leaves_the_address_open(admin, url):
    text = json.dumps(DOCUMENT | {"servers": [{"url": url}], "info": {"title": "", "version": "1"}})
    address, job_id = begin_detection(admin, text)
    detection_jobs.perform(job_id)
    page = admin.get(address)
    assert (page.status_code, page.context["detected"].address) == (200, "")
