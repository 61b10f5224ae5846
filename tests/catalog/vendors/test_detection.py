"""Detection at real servers: those of other people, the demo's kinds, and hostile ones."""

import json
import subprocess
import sys

import pytest

import protocols
from catalog.vendors import detection
from tests.hostile_vendor import HostileVendor, reply

pytestmark = pytest.mark.django_db(transaction=True)
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Weather", "version": "1"},
    "paths": {"/sky": {"get": {"operationId": "sky", "responses": {"200": {"description": "ok"}}}}},
}


def detect(address: str):
    return detection.detect_address(address, lambda protocol, tools: None)


def answering(paths: dict[str, bytes], status: int = 404, **headers: str):
    """A script with a reply for each path, and one status for all others."""

    def script(line, request) -> bool:
        if request.path in paths:
            return reply(paths[request.path])(line, request)
        return reply(b"{}", status=status, headers=headers)(line, request)

    return script


def test_a_server_of_the_official_sdk_is_recognised_with_its_sign_in():
    command = [sys.executable, "-m", "tests.mcp_authorization"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            root = f"http://127.0.0.1:{int(process.stdout.readline())}"
            at_root, at_path = detect(root), detect(f"{root}/mcp")
        finally:
            process.terminate()
    for detected in (at_root, at_path):
        assert (detected.protocol, detected.address) == ("mcp", f"{root}/mcp")
        assert detected.wants_sign_in
        assert detected.discovery.servers


def test_a_public_server_of_the_official_sdk_states_its_name_and_its_tools():
    command = [sys.executable, "-m", "tests.mcp_reference"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            detected = detect(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.terminate()
    assert (detected.protocol, detected.error) == ("mcp", None)
    assert detected.name
    assert detected.preview.tools


def test_a_document_is_found_in_its_usual_place_below_the_address():
    with HostileVendor(answering({"/openapi.json": json.dumps(DOCUMENT).encode()})) as vendor:
        detected = detect(f"{vendor.url}/anything")
    assert (detected.protocol, detected.name, detected.preview.tools) == ("openapi", "Weather", 1)
    assert detected.address == f"{vendor.url}/openapi.json"


def test_a_redirect_is_reported_and_not_followed():
    with HostileVendor(answering({})) as other:
        moved = answering({}, 302, Location=f"{other.url}/elsewhere?key=1")
        with HostileVendor(moved) as vendor:
            detected = detect(f"{vendor.url}/a")
        assert detected.error["code"] == "REDIRECT"
        assert f"{other.url}/elsewhere" in detected.error["message"]
        assert other.requests == []
        assert len(vendor.requests) <= detection.MAX_PROBES


@pytest.mark.parametrize("location", ["https://[", "//[x]:y/", "", "\x00"])
def test_a_redirect_to_no_address_is_reported(location):
    with HostileVendor(reply(b"", status=302, headers={"Location": location})) as vendor:
        assert detect(f"{vendor.url}/a").error["code"] == "REDIRECT"


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (reply(b"<html><title>Acme &amp; sons</title></html>"), "WEB_PAGE"),
        (reply(b'{"hello": 1}'), "UNKNOWN_REPLY"),
        (reply(b"{}", status=404), "NOT_FOUND"),
        (reply(b"{}", status=503), "HTTP_503"),
    ],
)
def test_what_answered_is_explained(script, code):
    with HostileVendor(script) as vendor:
        detected = detect(f"{vendor.url}/a")
    assert (detected.protocol, detected.possible, detected.error["code"]) == ("", [], code)


def test_an_address_that_refuses_everything_leaves_the_choice_to_the_user():
    with HostileVendor(reply(b"{}", status=401)) as vendor:
        detected = detect(f"{vendor.url}/a")
        is_mcp = detect(f"{vendor.url}/mcp")
    assert (detected.protocol, detected.error) == ("", None)
    assert {"mcp", "a2t"} <= set(detected.possible)
    assert (is_mcp.protocol, is_mcp.wants_sign_in) == ("mcp", True)


def test_a_server_that_cannot_be_reached_gets_one_probe():
    tried: list[str] = []
    detected = detection.detect_address("http://127.0.0.1:9/", lambda protocol, tools: tried.append(protocol))
    assert detected.error["code"] == "CONNECT"
    assert len(tried) == 1


def test_a_silent_server_ends_in_time(monkeypatch):
    monkeypatch.setattr(detection, "SECONDS", 0.6)
    limits = detection.replace(detection.LIMITS, request=0.2, session=0.6)
    monkeypatch.setattr(detection, "LIMITS", limits)

    def says_nothing(line, request) -> bool:
        line.wait(5)
        return False

    with HostileVendor(says_nothing) as vendor:
        assert detect(vendor.url).error["code"] == "NO_ANSWER"


def test_every_protocol_can_be_detected():
    assert all(protocol.recognition for protocol in protocols.PROTOCOLS)
