"""AWS Signature Version 4, against signatures that botocore 1.44 made of the same requests."""

import pytest
from urllib3 import HTTPHeaderDict

from catalog.credentials import operations as credential_operations
from catalog.credentials import sessions
from catalog.credentials.kinds.aws_signature import AwsSignature
from core.errors import DomainError
from core.outbound.errors import RefusedError
from core.outbound.request import OutgoingRequest
from people.models import Role
from tests.factories import make_endpoint, make_user
from tests.hostile_vendor import HostileVendor, json_reply, reply

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
DETAILS = {"access_key_id": "AKIAIOSFODNN7EXAMPLE", "region": "eu-central-1", "service": "execute-api"}
TEXT = '{"q":"café"}'.encode()
SIGNED = [
    (
        "GET",
        "/prod/tools",
        None,
        "execute-api",
        "33f3dca95c3e6f7722e1284986b3baf0a3478a537b31d4d078f05ccec9890fdd",
    ),
    (
        *("GET", "/prod/tools?page=2&b=a%20b&a=%2Fx~y&empty=", None, "execute-api"),
        "ddaca15e81e58e9ae1828a6a5c14c26b56cccd23425ca9c7a70529a2d29149db",
    ),
    (
        *("POST", "/prod/a%20b/c%2Fd/run", TEXT, "execute-api"),
        "a0a1b7b1bfe67152f6ab9310f1e90ef053e1f0ae01bda75c8c2f7f0be9802337",
    ),
    ("POST", "/prod/a%20b", b"{}", "s3", "01cb4dafb4175a703d92be10bc31a29a38359b991156649cc978a0faf12bda71"),
    ("DELETE", "/", None, "lambda", "cfe8617377c2d241ac2bed7c9be85a9cc587d74b6f3937463cd27d51c81633c1"),
]


@pytest.mark.parametrize(("method", "target", "body", "service", "signature"), SIGNED)
def test_requests_are_signed_as_the_documentation_says(
    time_machine, method, target, body, service, signature
):
    time_machine.move_to("2026-11-27T12:00:00Z", tick=False)
    request = OutgoingRequest(method, "api.example:8443", target, HTTPHeaderDict(), body)
    AwsSignature(DETAILS | {"service": service}, SECRET).apply(request)
    scope = f"AKIAIOSFODNN7EXAMPLE/20261127/eu-central-1/{service}/aws4_request"
    assert request.headers["Authorization"] == (
        f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
        f"Signature={signature}"
    )
    assert (request.target, SECRET in str(request.headers)) == (target, False)


def make_credential(url: str, **changes):
    details = {"name": "AWS", "kind": "aws_sigv4", "secret": SECRET} | DETAILS | changes
    return credential_operations.create_credential(actor=make_user(Role.ADMIN), url=url, **details)


@pytest.mark.django_db
def test_each_request_of_a_session_has_its_own_signature():
    with HostileVendor(reply()) as vendor:
        endpoint = make_endpoint(url=vendor.url, credential=make_credential(vendor.url))
        with sessions.open_session(endpoint) as session:
            session.get("/a")
            session.post("/a", json={"x": 1})
    signatures = {request.headers["authorization"] for request in vendor.requests}
    assert len(signatures) == 2
    assert {request.headers["host"] for request in vendor.requests} == {f"127.0.0.1:{vendor.port}"}


@pytest.mark.django_db
def test_a_refusal_is_noted_and_an_echo_of_the_secret_is_not_taken():
    with HostileVendor(reply(status=401)) as vendor:
        credential = make_credential(vendor.url)
        with sessions.open_session(make_endpoint(url=vendor.url, credential=credential)) as session:
            with pytest.raises(RefusedError) as refused:
                session.get("/a")
            vendor.script = json_reply({"key": SECRET})
            with pytest.raises(RefusedError) as echoed:
                session.get("/a")
    assert (refused.value.code, echoed.value.code) == ("AUTH", "ECHO")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"access_key_id": ""}, "access_key_id"),
        ({"access_key_id": "akia"}, "access_key_id"),
        ({"region": "eu/central"}, "region"),
        ({"service": ""}, "service"),
        ({"secret": " "}, "secret"),
    ],
)
def test_details_that_cannot_be_signed_with_are_refused(changes, field):
    with pytest.raises(DomainError) as refused:
        make_credential("https://api.example", **changes)
    assert set(refused.value.fields) == {field}
