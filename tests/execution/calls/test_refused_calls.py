"""A vendor that refuses arguments within its signature raises a finding, once for a version."""

import pytest

from catalog.models import Call, Finding
from catalog.review import inspector
from tests.execution.calls.test_invocation import make_version, run
from tests.hostile_vendor import HostileVendor, json_reply

pytestmark = pytest.mark.django_db
REFUSING = json_reply({"message": "city: no such place as Oslo"}, status=422)


@pytest.mark.parametrize("status", [400, 405, 415, 422])
def test_a_call_that_fits_and_is_refused_is_a_finding(status):
    with HostileVendor(json_reply({"message": "city: no such place as Oslo"}, status=status)) as vendor:
        version = make_version(vendor.url)
        run(version)
        run(version, {"city": "Bergen"})
    finding = Finding.objects.get()
    assert (finding.code, finding.severity, finding.state) == ("REFUSES_VALID", "low", "open")
    assert (finding.tool, finding.version, finding.subject) == (version.tool, version, version.digest)
    assert "refuses inputs that its signature allows" in finding.message
    assert f"answered {status}" in finding.message
    assert "Oslo" not in finding.message, "what was sent is for those who may see the call"


def test_a_finding_that_somebody_has_decided_stays_decided():
    with HostileVendor(REFUSING) as vendor:
        version = make_version(vendor.url)
        run(version)
        Finding.objects.update(state="accepted")
        run(version)
    assert Finding.objects.get().state == "accepted"


@pytest.mark.parametrize("status", [401, 403, 404, 409, 429, 500])
def test_other_answers_say_nothing_about_the_signature(status):
    with HostileVendor(json_reply({"message": "No."}, status=status)) as vendor:
        run(make_version(vendor.url))
    assert Call.objects.exists()
    assert not Finding.objects.exists()


def test_it_waits_for_review_and_says_what_to_do(admin_api):
    with HostileVendor(REFUSING) as vendor:
        run(make_version(vendor.url))
    results = admin_api.get("/api/v1/findings/").json()["results"]
    assert [finding["code"] for finding in results] == ["REFUSES_VALID"]
    assert "Report it to the vendor" in results[0]["message"]
    inspector.inspect_pending()
    assert Finding.objects.get().state == "open"
