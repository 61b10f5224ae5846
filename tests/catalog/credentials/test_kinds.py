"""Keys in the address and signed tokens: carried as they must be, and struck out wherever one looks."""

import base64
import hashlib
import hmac
import json
import time
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from django.db import connection

from catalog.credentials import kinds, sessions
from catalog.credentials import operations as credential_operations
from catalog.models import Credential
from core.outbound.errors import RefusedError
from people.models import AuditEntry, Role
from tests.factories import make_endpoint, make_user
from tests.hostile_vendor import HostileVendor, Request, json_reply, reply
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db

KEY = "kAnarY+vogel/17=geheim&x"


def make_credential(url: str, **fields) -> Credential:
    details = {"name": "Key", "kind": "query", "parameter": "api_key", "secret": KEY, **fields}
    return credential_operations.create_credential(actor=make_user(Role.ADMIN), url=url, **details)


def ask(vendor: HostileVendor, path: str = "/a", params=None, *, exchanges=None, **fields):
    endpoint = make_endpoint(url=vendor.url, credential=make_credential(vendor.url, **fields))
    with sessions.open_session(endpoint, exchanges) as session:
        return session.get(path, params=params)


def claims_of(request: Request) -> dict:
    token = request.headers["authorization"].removeprefix("Bearer ")
    return json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))


@pytest.mark.parametrize("params", [None, {"page": "2"}])
def test_key_goes_along_in_the_address(params):
    with HostileVendor(reply()) as vendor:
        ask(vendor, params=params)

    query = parse_qs(urlsplit(vendor.requests[0].target).query)
    assert query == {"api_key": [KEY]} | {name: [value] for name, value in (params or {}).items()}


def test_no_address_that_is_kept_holds_the_key():
    exchanges = []
    with HostileVendor(reply()) as vendor:
        answer = ask(vendor, params={"page": "2"}, exchanges=exchanges)

    assert answer.url == exchanges[0].url == f"{vendor.url}/a?page=2"
    assert "geheim" not in repr(exchanges)


@pytest.mark.parametrize("spelling", [KEY, quote(KEY, safe="")])
def test_reply_that_repeats_the_key_in_any_spelling_is_not_taken(spelling):
    script = json_reply({"next": f"/a?api_key={spelling}"})
    with HostileVendor(script) as vendor, pytest.raises(RefusedError) as refused:
        ask(vendor)

    assert refused.value.code == "ECHO"


def test_key_stays_with_its_origin():
    with HostileVendor(reply()) as vendor, HostileVendor(reply()) as other:
        endpoint = make_endpoint(url=vendor.url, credential=make_credential(vendor.url))
        with sessions.open_session(endpoint) as session, session.at_url(other.url) as elsewhere:
            session.get("/a")
            elsewhere.get("/b")

    assert "api_key" in vendor.requests[0].target
    assert other.requests[0].target == "/b"


def test_wrong_key_is_called_ours():
    with HostileVendor(reply(status=401)) as vendor, pytest.raises(RefusedError, match="rejected the"):
        ask(vendor)


def test_signed_token_says_who_for_whom_and_how_long():
    with HostileVendor(reply()) as vendor:
        ask(vendor, kind="jwt", issuer="pegboard", subject="desk", audience="worker", lifetime_seconds=120)
        before = int(time.time())

    claims = claims_of(vendor.requests[0])
    assert {name: claims[name] for name in ("iss", "sub", "aud")} == {
        "iss": "pegboard",
        "sub": "desk",
        "aud": "worker",
    }
    assert claims["exp"] - claims["iat"] == 120
    assert abs(claims["iat"] - before) < 60


def test_signed_token_is_one_that_anybody_with_the_secret_can_check():
    with HostileVendor(reply()) as vendor:
        ask(vendor, kind="jwt")

    token = vendor.requests[0].headers["authorization"].removeprefix("Bearer ")
    signed, _, signature = token.rpartition(".")
    digest = hmac.new(KEY.encode(), signed.encode(), hashlib.sha256).digest()
    assert base64.urlsafe_b64decode(signature + "==") == digest
    assert json.loads(base64.urlsafe_b64decode(signed.split(".")[0] + "==")) == {"alg": "HS256", "typ": "JWT"}
    assert claims_of(vendor.requests[0]).keys() == {"iat", "exp"}


def test_each_conversation_gets_a_token_of_its_own(time_machine):
    with HostileVendor(reply()) as vendor:
        endpoint = make_endpoint(url=vendor.url, credential=make_credential(vendor.url, kind="jwt"))
        for moment in ("2026-11-21T10:00Z", "2026-11-21T10:01Z"):
            time_machine.move_to(moment, tick=True)
            with sessions.open_session(endpoint) as session:
                session.get("/a")

    first, second = (claims_of(request)["iat"] for request in vendor.requests)
    assert second - first == 60


def test_a_conversation_that_lasts_gets_another_token_before_its_own_runs_out(time_machine):
    with HostileVendor(reply()) as vendor:
        credential = make_credential(vendor.url, kind="jwt", lifetime_seconds=120)
        endpoint = make_endpoint(url=vendor.url, credential=credential)
        time_machine.move_to("2026-11-21T10:00Z", tick=False)
        with sessions.open_session(endpoint) as session:
            for moment in ("10:00", "10:00:30", "10:01", "10:11"):
                time_machine.move_to(f"2026-11-21T{moment}Z", tick=False)
                session.get("/a")

    first, *later = (claims_of(request)["iat"] for request in vendor.requests)
    assert [moment - first for moment in later] == [0, 60, 660]


def test_reply_that_repeats_the_token_is_not_taken():
    def parrot(line, request):
        return json_reply({"you": request.headers["authorization"]})(line, request)

    with HostileVendor(parrot) as vendor, pytest.raises(RefusedError) as refused:
        ask(vendor, kind="jwt")

    assert refused.value.code == "ECHO"


def test_details_of_other_kinds_are_not_kept():
    credential = make_credential("http://127.0.0.1:9100/", kind="jwt", audience="worker", header="X-Key")

    assert credential.details == {"audience": "worker", "lifetime_seconds": 600}
    assert AuditEntry.objects.latest("pk").after["audience"] == "worker"


def test_a_person_enters_both_kinds_on_the_page():
    admin = signed_in(Role.ADMIN)
    fields = {"name": "Key", "url": "http://127.0.0.1:9100/", "secret": KEY, "lifetime_seconds": 300}

    query = admin.post("/credentials/new/", fields | {"kind": "query", "parameter": "key"}, follow=True)
    token = admin.post("/credentials/new/", fields | {"kind": "jwt", "audience": "worker"}, follow=True)

    assert "Name in the address key" in text_of(query)
    assert "Audience (aud) worker" in text_of(token)
    assert "Lifetime of a token in seconds 300" in text_of(token)


OLD_COLUMNS = "header, username, parameter, issuer, subject, audience, lifetime_seconds"


def old_columns() -> tuple:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {OLD_COLUMNS} FROM catalog_credential")
        return cursor.fetchone()


def test_code_of_yesterday_and_today_read_each_others_details():
    credential = make_credential("http://127.0.0.1:9100/", kind="jwt", issuer="us", lifetime_seconds=60)
    assert old_columns() == ("", "", "", "us", "", "", 60)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE catalog_credential SET issuer = '', subject = 'desk', lifetime_seconds = 90")
    credential.refresh_from_db()
    assert credential.details == {"subject": "desk", "lifetime_seconds": 90}
    credential_operations.update_credential(
        credential, actor=make_user(Role.ADMIN), subject="", audience="worker"
    )
    assert old_columns() == ("", "", "", "", "", "worker", 90)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO catalog_credential (id, name, kind, header, username, parameter, issuer, subject,"
            " audience, origin, sealed, fingerprint, set_at)"
            " SELECT gen_random_uuid(), name, 'header', 'X-Key', '', '', '', '', '',"
            " origin, sealed, fingerprint, set_at FROM catalog_credential"
        )
    assert Credential.objects.get(kind="header").details == {"header": "X-Key"}


def test_every_kind_has_details_of_its_own_names():
    names = [detail.name for kind in kinds.ALL for detail in kind.details]
    assert len(names) == len(set(names))
    reserved = {"name", "kind", "url", "secret", "client", "origin", "fingerprint", "status", "endpoints"}
    assert not reserved & set(names)
    assert len({kind.name for kind in kinds.ALL}) == len(kinds.ALL)
