import base64
import json
import logging
import pickle
import traceback
from urllib.parse import quote

import pytest
import redis
from django.conf import settings as django_settings
from django.core import serializers
from django.db import connection
from rest_framework.test import APIClient
from urllib3 import HTTPHeaderDict

from catalog.credentials import operations as credential_operations
from catalog.credentials import sessions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Credential, Endpoint, Run
from catalog.models.runs import Trigger
from catalog.vendors import operations as vendor_operations
from core.encryption import Secret
from core.errors import DomainError
from core.outbound.errors import RefusedError
from core.outbound.request import OutgoingRequest
from people.models import Role
from tests.factories import make_endpoint, make_user
from tests.hostile_vendor import HostileVendor, raw, reply
from tests.vendor import Vendor, serving, tool, tools

URL = "http://127.0.0.1:9100/api"


def key(name: str, fill: int = 0, size: int = 32) -> str:
    return f"{name}:{base64.b64encode(bytes([fill] * size)).decode()}"


def make_credential(secret: str = "s3cret", **fields) -> Credential:
    details = {"name": "Main key", "kind": "bearer", "url": URL, **fields}
    return credential_operations.create_credential(actor=make_user(Role.ADMIN), secret=secret, **details)


def test_secret_does_not_show_itself():
    secret = Secret("s3cret")

    assert [repr(secret), str(secret), f"{secret}", f"{[secret]}"] == ["****"] * 3 + ["[****]"]
    assert secret.reveal() == "s3cret"
    for leak in (pickle.dumps, json.dumps):
        with pytest.raises(TypeError):
            leak(secret)


@pytest.mark.django_db
def test_encrypted_secret_is_decrypted_again_and_never_looks_the_same():
    one, other = make_credential(), make_credential()

    assert sessions.decrypt(Credential.objects.get(pk=one.pk)).reveal() == "s3cret"
    assert one.sealed.startswith("v1:k1:")
    assert one.sealed != other.sealed
    assert one.fingerprint == other.fingerprint != make_credential("another").fingerprint


@pytest.mark.django_db
def test_ciphertext_of_another_row_does_not_open():
    own_credential, other = make_credential("mine"), make_credential("other")
    Credential.objects.filter(pk=own_credential.pk).update(sealed=other.sealed)

    with pytest.raises(sessions.UndecryptableError) as locked:
        sessions.decrypt(Credential.objects.get(pk=own_credential.pk))

    assert locked.value.code == "CREDENTIAL_LOCKED"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: "plain text",
        lambda text: text.replace("v1:", "v2:"),
        lambda text: text.replace(":k1:", ":k9:"),
        lambda text: text[:-8],
        lambda text: text[:6],
        lambda text: text + "!",
        lambda text: text[:10] + ("A" if text[10] != "A" else "B") + text[11:],
    ],
)
def test_damaged_ciphertext_is_never_taken_for_a_secret(damage):
    credential = make_credential()
    credential.sealed = damage(credential.sealed)

    with pytest.raises(sessions.UndecryptableError):
        sessions.decrypt(credential)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "keys", [[], [key("k2")], [key("k1", fill=9)], ["k1:not base64"], [key("k1", size=16)]]
)
def test_missing_or_wrong_key_locks_the_secret(settings, keys):
    credential = make_credential()
    settings.KEYS = keys

    with pytest.raises(DomainError) as locked:
        sessions.decrypt(credential)

    assert locked.value.code == "CREDENTIAL_LOCKED"
    assert "“Main key”" in locked.value.message


@pytest.mark.django_db
@pytest.mark.parametrize("keys", [[], ["k1"], ["k1:?"], [key("k1", size=16)]])
def test_nothing_is_encrypted_without_a_usable_key(settings, keys):
    settings.KEYS = keys

    with pytest.raises(DomainError) as refused:
        make_credential()

    assert refused.value.code == "no_key"
    assert "PEGBOARD_KEYS" in refused.value.message
    assert not Credential.objects.exists()


@pytest.mark.django_db
def test_first_key_encrypts_and_all_keys_decrypt(settings):
    old = make_credential("old secret")
    settings.KEYS = [key("k2", fill=2), *settings.KEYS]

    new = make_credential("new secret")
    assert new.sealed.startswith("v1:k2:")
    assert sessions.decrypt(old).reveal() == "old secret"
    old = credential_operations.replace_secret(old, actor=make_user(Role.ADMIN), secret="old secret")

    settings.KEYS = [key("k2", fill=2)]
    assert [sessions.decrypt(row).reveal() for row in (old, new)] == ["old secret", "new secret"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"kind": "bearer"}, {"Authorization": "Bearer s3cret"}),
        ({"kind": "header", "header": "X-Key"}, {"X-Key": "s3cret"}),
        ({"kind": "basic", "username": "ada"}, {"Authorization": "Basic YWRhOnMzY3JldA=="}),
    ],
)
def test_each_kind_has_its_own_header(fields, headers):
    request = OutgoingRequest("GET", "api.example", "/", HTTPHeaderDict(), None)
    sessions.open_kind(make_credential(**fields)).apply(request)
    assert dict(request.headers) == headers


@pytest.mark.django_db
@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9101/api", "https://127.0.0.1:9100/api", "http://[::1]:9100/api"]
)
def test_no_session_takes_a_credential_to_another_origin(settings, url):
    settings.OUTBOUND_ALLOW = "127.0.0.0/8 ::1/128"
    endpoint = make_endpoint(url=url, credential=make_credential())

    with pytest.raises(DomainError) as refused:
        sessions.open_session(endpoint)

    assert refused.value.code == "CREDENTIAL_ELSEWHERE"


@pytest.mark.django_db
def test_removed_credential_is_not_sent(admin_api):
    credential = make_credential()
    endpoint = make_endpoint(url=URL, credential=credential)
    Credential.objects.update(removed_at="2026-01-01T00:00Z")
    endpoint = Endpoint.objects.select_related("credential").get(pk=endpoint.pk)

    with pytest.raises(DomainError):
        sessions.open_session(endpoint)


CANARY = "kAnarY+vogel/17=geheim"
SECOND = "zweiTer+vogel/18=geheim"


def spellings(secret: str) -> set[str]:
    encoded = secret.encode()
    shifted = (base64.b64encode(b"x" * n + encoded).decode().strip("=") for n in range(3))
    inner = {text[4:-4] for text in shifted}
    return {secret, secret[::-1], quote(secret, safe=""), encoded.hex(), *inner}


def echoes(secret: str):
    """Ways in which a vendor may send back what it was sent."""
    bearer = f"Bearer {secret}"
    return {
        "in an error": (400, json.dumps({"error": bearer}).encode()),
        "in something that is no JSON": (200, f"<p>{bearer}</p>".encode()),
        "in a version": (200, json.dumps({"items": [tool(1, version=bearer)]}).encode()),
        "in a description": (200, json.dumps({"items": [tool(1, description=bearer)]}).encode()),
        "in an id": (200, json.dumps({"items": [tool(1, toolId=secret)]}).encode()),
        "in a cursor": (200, json.dumps({"items": [tool(1)], "paging": {"next": [bearer]}}).encode()),
    }


@pytest.mark.django_db
@pytest.mark.parametrize(
    "script",
    [
        reply(f'{{"you_sent": "{CANARY}"}}'.encode()),
        reply(headers={"ETag": f'"{CANARY}"'}),
        reply(status=302, headers={"Location": f"/sign-in/{CANARY}"}),
        raw(f"{CANARY} is not HTTP\r\n".encode()),
    ],
    ids=["body", "header", "redirect", "not HTTP"],
)
def test_reply_that_holds_the_secret_is_not_taken(script):
    with HostileVendor(script) as parrot:
        endpoint = make_endpoint(url=parrot.url, credential=make_credential(CANARY, url=parrot.url))
        with sessions.open_session(endpoint) as session, pytest.raises(RefusedError) as refused:
            session.get("/tools")

    assert refused.value.code == "ECHO"
    assert CANARY not in "".join(traceback.format_exception(refused.value))


@pytest.mark.django_db(transaction=True)
def test_secrets_are_found_nowhere(vendor: Vendor, admin_api: APIClient, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    page_texts = []

    def ask(method: str, path: str, body: dict | None = None) -> dict:
        answer = getattr(admin_api, method)(f"/api/v1/{path}", body, format="json")
        page_texts.append(answer.content.decode())
        return answer.json() if answer.content else {}

    fields = {"name": "Key", "kind": "bearer", "url": vendor.url, "secret": CANARY}
    ask("post", "credentials/", {**fields, "kind": "ticket"})
    ask("post", "credentials/", {**fields, "secret": f"{CANARY}\n"})
    ask("post", "credentials/", {**fields, "url": "nope"})
    credential = ask("post", "credentials/", fields)["id"]
    ask("post", "vendors/", {"name": "Parrot"})
    endpoint = ask(
        "post",
        "endpoints/",
        {"vendor": "parrot", "protocol": "a2t", "url": vendor.url, "credential": credential},
    )["id"]
    for answer in echoes(CANARY).values():
        vendor.script = lambda number, document, answer=answer: answer
        enumeration_runs.perform(ask("post", f"endpoints/{endpoint}/enumerate/")["run"])
    ask("put", f"credentials/{credential}/", {"secret": SECOND})
    vendor.script = None
    enumeration_runs.perform(ask("post", f"endpoints/{endpoint}/enumerate/")["run"])
    ask("patch", f"endpoints/{endpoint}/", {"url": vendor.url.replace("127.0.0.1", "127.0.0.2")})
    for path in ("credentials/", f"credentials/{credential}/", "endpoints/", "runs/", "audit/", "findings/"):
        ask("get", path)
    ask("delete", f"credentials/{credential}/")

    assert {headers.get("authorization") for headers in vendor.headers} == {
        f"Bearer {CANARY}",
        f"Bearer {SECOND}",
    }
    assert set(Run.objects.values_list("error_code", flat=True)) == {"", "ECHO", "HTTP_400"}
    places = {
        "replies": page_texts,
        "database": database_rows(),
        "dumpdata": [serializers.serialize("json", Credential.objects.all())],
        "broker": broker_values(),
        "logs": [*(record.getMessage() for record in caplog.records), *capfd.readouterr()],
    }
    for place, texts in places.items():
        text = "\n".join(texts)
        assert text, place
        for spelling in spellings(CANARY) | spellings(SECOND):
            assert spelling not in text, (place, spelling)


def database_rows() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        rows = []
        for (table,) in cursor.fetchall():
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            rows += [row for (row,) in cursor.fetchall()]
    return rows


def broker_values() -> list[str]:
    url = django_settings.REDIS_URL.replace("redis+socket", "unix").replace("virtual_host", "db")
    with redis.Redis.from_url(url) as broker:
        return [
            str(message)
            for queue in django_settings.CELERY_TASK_QUEUES
            for message in broker.lrange(queue.name, 0, -1)
        ]


@pytest.mark.django_db(transaction=True)
def test_who_may_move_an_endpoint_cannot_have_its_secret_sent_elsewhere(vendor):
    endpoint = make_endpoint(url=vendor.url, credential=make_credential(url=vendor.url))

    with serving(Vendor(tools(3))) as elsewhere:
        vendor_operations.update_endpoint(endpoint, actor=make_user(Role.ADMIN), url=elsewhere.url)
        run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)

    assert run.seen == 3
    assert not any("authorization" in headers for headers in elsewhere.headers)
