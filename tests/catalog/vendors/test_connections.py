import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

import protocols
from catalog.credentials import operations as credential_operations
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Credential, Endpoint, Run, Tool, ToolVersion, Vendor
from catalog.models.runs import Trigger
from catalog.vendors import operations as vendor_operations
from core.errors import DomainError
from people.models import AuditEntry, Role
from protocols.a2t.client import A2T
from protocols.base import Setting
from tests.factories import make_endpoint, make_pin, make_tool, make_user, make_vendor

pytestmark = pytest.mark.django_db
URL = "http://127.0.0.1:9100/api"


@pytest.fixture
def admin():
    return make_user(Role.ADMIN, username="ada")


def make_credential(url: str = URL, **fields) -> Credential:
    details = {"name": "Main key", "kind": "bearer", "secret": "s3cret", **fields}
    return credential_operations.create_credential(actor=make_user(Role.ADMIN), url=url, **details)


def last_audit() -> tuple[str, str, dict | None, dict | None]:
    row = AuditEntry.objects.latest("pk")
    return row.action, row.actor_name, row.before, row.after


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Acme Weather", "acme-weather"),
        ("Größe_1", "groe-1"),
        ("--Acme--", "acme"),
        ("x" * 59 + " yz", "x" * 59),
    ],
)
def test_short_name_of_a_vendor_is_made_from_its_name(admin, name, slug):
    assert vendor_operations.create_vendor(actor=admin, name=name).slug == slug


def test_name_without_a_latin_letter_is_no_dead_end(admin):
    slugs = {vendor_operations.create_vendor(actor=admin, name="天気").slug for _ in range(2)}

    assert len(slugs) == 2
    assert all(slug.startswith("vendor-") for slug in slugs)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "   "),
        ("name", "x" * 300),
        ("name", "Ac\u202eme"),
        ("slug", "Not Good"),
        ("slug", "-x"),
        ("slug", "x" * 61),
        ("homepage", "nope"),
        ("homepage", "javascript:alert(1)"),
        ("homepage", "https://vendor.example/" + "a" * 500),
    ],
)
def test_what_is_wrong_with_a_vendor_is_said_at_its_field(admin, field, value):
    with pytest.raises(DomainError) as refused:
        vendor_operations.create_vendor(actor=admin, **{"name": "Acme", field: value})

    assert (refused.value.code, refused.value.status) == ("invalid", 400)
    assert refused.value.fields[field].endswith(".")
    assert not Vendor.objects.exists()
    assert not AuditEntry.objects.exists()


def test_short_name_is_taken_while_its_vendor_lives(admin):
    first = vendor_operations.create_vendor(actor=admin, name="Acme")
    with pytest.raises(DomainError) as refused:
        vendor_operations.create_vendor(actor=admin, name="ACME")
    assert (refused.value.code, refused.value.status) == ("slug_taken", 409)

    vendor_operations.remove_vendor(first, actor=admin)

    assert vendor_operations.create_vendor(actor=admin, name="ACME").slug == "acme"


def test_audit_row_of_an_edit_holds_what_differs(admin):
    vendor = vendor_operations.create_vendor(actor=admin, name="Acme", homepage="https://acme.example/")
    assert last_audit() == (
        "connect",
        "ada",
        None,
        {"name": "Acme", "slug": "acme", "homepage": "https://acme.example/"},
    )

    vendor_operations.update_vendor(vendor, actor=admin, name=" Acme Ltd ")

    assert last_audit() == ("edit", "ada", {"name": "Acme"}, {"name": "Acme Ltd"})


def test_edit_that_changes_nothing_leaves_no_trace(admin):
    vendor, endpoint = make_vendor(), make_endpoint(url=URL)

    vendor_operations.update_vendor(vendor, actor=admin, name=vendor.name)
    vendor_operations.update_endpoint(endpoint, actor=admin, url=URL, interval_minutes=60, settings={})

    assert not AuditEntry.objects.exists()


def test_two_people_who_edit_different_members_both_keep_their_words(admin):
    vendor, endpoint = make_vendor(), make_endpoint(url=URL)
    same_vendor, same_endpoint = Vendor.objects.get(pk=vendor.pk), Endpoint.objects.get(pk=endpoint.pk)

    vendor_operations.update_vendor(vendor, actor=admin, name="New name")
    vendor_operations.update_vendor(same_vendor, actor=make_user(Role.ADMIN), homepage="https://new.example/")
    vendor_operations.update_endpoint(endpoint, actor=admin, name="Main")
    vendor_operations.update_endpoint(same_endpoint, actor=make_user(Role.ADMIN), interval_minutes=5)

    vendor.refresh_from_db()
    endpoint.refresh_from_db()
    assert (vendor.name, vendor.homepage) == ("New name", "https://new.example/")
    assert (endpoint.name, endpoint.interval_minutes) == ("Main", 5)


def test_edit_does_not_undo_what_a_worker_wrote_meanwhile(admin):
    endpoint = make_endpoint(url=URL)
    due = timezone.now() + timedelta(hours=1)
    Endpoint.objects.update(failures=3, error_code="AUTH", error_message="No.", next_due_at=due)

    vendor_operations.update_endpoint(endpoint, actor=admin, name="Main")

    endpoint.refresh_from_db()
    assert (endpoint.name, endpoint.failures, endpoint.error_code) == ("Main", 3, "AUTH")
    assert endpoint.next_due_at == due


EDITS = {
    "vendor": lambda vendor, endpoint, credential: vendor_operations.update_vendor(
        vendor, actor=make_user(Role.ADMIN), name="Late"
    ),
    "endpoint": lambda vendor, endpoint, credential: vendor_operations.update_endpoint(
        endpoint, actor=make_user(Role.ADMIN), name="Late"
    ),
    "secret": lambda vendor, endpoint, credential: credential_operations.replace_secret(
        credential, actor=make_user(Role.ADMIN), secret="late"
    ),
    "new endpoint": lambda vendor, endpoint, credential: vendor_operations.create_endpoint(
        actor=make_user(Role.ADMIN), vendor=vendor, protocol="a2t", url=URL
    ),
    "vendor twice": lambda vendor, endpoint, credential: vendor_operations.remove_vendor(
        vendor, actor=make_user(Role.ADMIN)
    ),
    "endpoint twice": lambda vendor, endpoint, credential: vendor_operations.remove_endpoint(
        endpoint, actor=make_user(Role.ADMIN)
    ),
    "credential twice": lambda vendor, endpoint, credential: credential_operations.remove_credential(
        credential, actor=make_user(Role.ADMIN)
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_somebody_removed_meanwhile_is_neither_edited_nor_revived(admin, edit):
    endpoint, credential = make_endpoint(url=URL), make_credential()
    vendor = Vendor.objects.get(pk=endpoint.vendor_id)
    stale = (vendor, Endpoint.objects.get(pk=endpoint.pk), Credential.objects.get(pk=credential.pk))
    vendor_operations.remove_vendor(Vendor.objects.get(pk=vendor.pk), actor=admin)
    credential_operations.remove_credential(credential, actor=admin)
    trail = AuditEntry.objects.count()

    with pytest.raises(DomainError) as late:
        EDITS[edit](*stale)

    assert late.value.status == 409
    assert late.value.code in ("vendor_removed", "endpoint_removed", "credential_removed")
    assert AuditEntry.objects.count() == trail
    assert not Vendor.objects.live().exists()
    assert not Endpoint.objects.filter(removed_at=None).exists()
    assert Credential.objects.get().sealed == ""


def test_removed_vendor_takes_its_endpoints_along_and_nothing_that_was_pinned(admin):
    tool = make_tool()
    pin = make_pin(tool=tool)
    Run.objects.create(endpoint=tool.endpoint, status="running", attempt=1)

    vendor_operations.remove_vendor(tool.endpoint.vendor, actor=admin)

    tool.refresh_from_db()
    assert tool.status == "withdrawn"
    assert ToolVersion.objects.get() == pin.version
    assert not Endpoint.objects.live().exists()
    assert [row.kind for row in AuditEntry.objects.order_by("pk")] == ["endpoint", "vendor"]
    run = Run.objects.get()
    assert (run.status, run.error_code) == ("failed", "ENDPOINT_REMOVED")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"url": "not a url"}, "url"),
        ({"url": "ftp://127.0.0.1/"}, "url"),
        ({"url": "http://user:pw@127.0.0.1/"}, "url"),
        ({"url": "http://127.0.0.1:99999/"}, "url"),
        ({"url": "http://127.0.0.1/?key=1"}, "url"),
        ({"url": "http://127.0.0.1/" + "a" * 2048}, "url"),
        ({"url": "http://127.0.0.1/\x00"}, "url"),
        ({"url": ""}, "url"),
        ({"name": "x" * 300}, "name"),
        ({"protocol": "carrier-pigeon"}, "protocol"),
        ({"interval_minutes": 0}, "interval_minutes"),
        ({"interval_minutes": -5}, "interval_minutes"),
        ({"interval_minutes": 10_081}, "interval_minutes"),
        ({"settings": {"colour": "red"}}, "settings"),
        ({"settings": {"page_size": "100"}}, "settings"),
        ({"settings": {"page_size": True}}, "settings"),
        ({"settings": {"page_size": 0}}, "settings"),
        ({"settings": {"page_size": 1001}}, "settings"),
        ({"settings": {"page_size": [5]}}, "settings"),
    ],
)
def test_what_is_wrong_with_an_endpoint_is_said_at_its_field(admin, fields, field):
    vendor = make_vendor()

    with pytest.raises(DomainError) as refused:
        vendor_operations.create_endpoint(
            actor=admin, vendor=vendor, **{"protocol": "a2t", "url": "http://127.0.0.1/", **fields}
        )

    assert list(refused.value.fields) == [field]
    assert refused.value.fields[field].endswith(".")
    assert not Endpoint.objects.exists()


def test_setting_that_a_protocol_needs_is_asked_for(admin, monkeypatch):
    class Keyed(A2T):
        name = "keyed"
        settings = (
            Setting(name="region", label="Region", required=True),
            Setting(name="depth", label="Depth", kind="integer", minimum=1),
            Setting(name="deep", label="Deep", kind="boolean"),
        )

    monkeypatch.setattr(protocols, "PROTOCOLS", (*protocols.PROTOCOLS, Keyed))

    def connect(**settings):
        return vendor_operations.create_endpoint(
            actor=admin, vendor=make_vendor(), protocol="keyed", url=URL, settings=settings
        )

    for settings, part in [
        ({}, "“Region” is required"),
        ({"region": ""}, "“Region” is required"),
        ({"region": 5}, "must be text"),
        ({"region": "eu", "depth": 0}, "at least 1"),
        ({"region": "eu", "deep": "yes"}, "yes or no"),
    ]:
        with pytest.raises(DomainError) as refused:
            connect(**settings)
        assert part in refused.value.fields["settings"]
    assert connect(region="eu", depth=99, deep=None).settings == {"region": "eu", "depth": 99}


def test_credential_goes_with_its_own_origin_only(admin):
    elsewhere = make_credential("http://127.0.0.1:9200/")

    with pytest.raises(DomainError) as refused:
        vendor_operations.create_endpoint(
            actor=admin, vendor=make_vendor(), protocol="a2t", url=URL, credential=elsewhere
        )

    assert "http://127.0.0.1:9200" in refused.value.fields["credential"]


def test_removed_credential_is_not_bound_again(admin):
    credential = make_credential()
    stale = Credential.objects.get(pk=credential.pk)
    credential_operations.remove_credential(credential, actor=admin)

    with pytest.raises(DomainError, match="has been removed"):
        vendor_operations.update_endpoint(make_endpoint(url=URL), actor=admin, credential=stale)


@pytest.mark.parametrize(
    ("url", "keeps"),
    [
        ("http://127.0.0.1:9100/elsewhere", True),
        ("HTTP://127.0.0.1:9100", True),
        ("http://127.0.0.1:9101/api", False),
        ("http://127.0.0.2:9100/api", False),
        ("https://127.0.0.1:9100/api", False),
    ],
)
def test_endpoint_that_moves_to_another_origin_loses_its_credential(admin, url, keeps):
    endpoint = make_endpoint(url=URL, credential=make_credential())

    moved = vendor_operations.update_endpoint(endpoint, actor=admin, url=url)

    assert (moved.credential is not None) is keeps
    assert last_audit()[2] == {"url": URL} | ({} if keeps else removed_credential(endpoint))


def removed_credential(endpoint: Endpoint) -> dict[str, str]:
    return {"credential": "Main key", "credential_id": str(endpoint.credential_id)}


def test_moving_and_keeping_the_credential_is_refused(admin):
    credential = make_credential()
    endpoint = make_endpoint(url=URL, credential=credential)

    with pytest.raises(DomainError) as refused:
        vendor_operations.update_endpoint(
            endpoint, actor=admin, url="http://127.0.0.1:9101/", credential=credential
        )

    assert "cannot be used elsewhere" in refused.value.fields["credential"]
    endpoint.refresh_from_db()
    assert endpoint.url == URL


def test_credentials_of_one_name_are_told_apart(admin):
    first, second = make_credential(), make_credential()
    endpoint = make_endpoint(url=URL, credential=first)

    vendor_operations.update_endpoint(endpoint, actor=admin, credential=second)

    endpoint.refresh_from_db()
    assert endpoint.credential == second
    assert last_audit()[3] == {"credential_id": str(second.pk)}


@pytest.mark.parametrize(
    ("changes", "is_due"),
    [
        ({"name": "Main"}, False),
        ({"interval_minutes": 60}, False),
        ({"interval_minutes": 5}, True),
        ({"url": URL + "/v2"}, True),
        ({"settings": {"page_size": 10}}, True),
    ],
)
def test_endpoint_is_read_soon_when_how_it_is_read_has_changed(admin, changes, is_due):
    endpoint = make_endpoint(url=URL, next_due_at=timezone.now() + timedelta(hours=1))

    vendor_operations.update_endpoint(endpoint, actor=admin, **changes)

    assert Endpoint.objects.due().filter(pk=endpoint.pk).exists() is is_due


def test_paused_endpoint_is_not_due_until_it_is_resumed(admin):
    endpoint = make_endpoint(url=URL)

    endpoint = vendor_operations.update_endpoint(endpoint, actor=admin, is_paused=True)
    assert not Endpoint.objects.due().exists()
    Endpoint.objects.update(next_due_at=timezone.now() + timedelta(hours=1))
    vendor_operations.update_endpoint(endpoint, actor=admin, is_paused=False)

    assert Endpoint.objects.due().exists()
    assert last_audit()[2:] == ({"is_paused": True}, {"is_paused": False})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 300}, "name"),
        ({"kind": "ticket"}, "kind"),
        ({"url": "nope"}, "url"),
        ({"secret": ""}, "secret"),
        ({"secret": "  "}, "secret"),
        ({"secret": "two\nlines"}, "secret"),
        ({"secret": "nul\x00"}, "secret"),
        ({"secret": "schlüssel"}, "secret"),
        ({"secret": "x" * 8_001}, "secret"),
        ({"kind": "header"}, "header"),
        ({"kind": "header", "header": "X Key"}, "header"),
        ({"kind": "header", "header": "X-Key\r\nX-Evil"}, "header"),
        ({"kind": "header", "header": "Host"}, "header"),
        ({"kind": "basic"}, "username"),
        ({"kind": "basic", "username": "a:b"}, "username"),
        ({"kind": "basic", "username": "a" * 201}, "username"),
    ],
)
def test_what_is_wrong_with_a_credential_is_said_at_its_field(admin, fields, field):
    with pytest.raises(DomainError) as refused:
        make_credential(**fields)

    assert list(refused.value.fields) == [field]
    assert not Credential.objects.exists()


def test_credential_keeps_only_what_its_kind_uses(admin):
    bearer = make_credential(header="X-Api-Key", username="ada")
    header = make_credential(kind="header", header="X-Api-Key", username="ada")
    basic = make_credential(kind="basic", header="X-Api-Key", username="ada")

    assert [row.details for row in (bearer, header, basic)] == [
        {},
        {"header": "X-Api-Key"},
        {"username": "ada"},
    ]


def test_credential_in_use_is_not_removed(admin):
    credential = make_credential()
    endpoint = make_endpoint(url=URL, credential=credential, name="Main")

    with pytest.raises(DomainError) as refused:
        credential_operations.remove_credential(credential, actor=admin)
    assert (refused.value.code, refused.value.status) == ("credential_in_use", 409)
    assert "“Main”" in refused.value.message

    vendor_operations.remove_endpoint(endpoint, actor=admin)
    credential_operations.remove_credential(credential, actor=admin)
    credential.refresh_from_db()
    assert credential.sealed == ""


def test_every_change_leaves_its_row_in_the_trail(admin):
    vendor = vendor_operations.create_vendor(actor=admin, name="Acme")
    credential = credential_operations.create_credential(
        actor=admin, name="Key", kind="header", header="X-Key", url=URL, secret="s3cret"
    )
    endpoint = vendor_operations.create_endpoint(
        actor=admin, vendor=vendor, protocol="a2t", url=URL, credential=credential
    )
    credential_operations.replace_secret(credential, actor=admin, secret="an0ther")
    vendor_operations.remove_vendor(vendor, actor=admin)
    credential_operations.remove_credential(credential, actor=admin)

    rows = AuditEntry.objects.order_by("pk")
    assert {row.actor for row in rows} == {admin}
    assert [(row.action, row.kind, row.label) for row in rows] == [
        ("connect", "vendor", "Acme"),
        ("enter", "credential", "Key"),
        ("connect", "endpoint", URL),
        ("replace", "credential", "Key"),
        ("remove", "endpoint", URL),
        ("remove", "vendor", "Acme"),
        ("remove", "credential", "Key"),
    ]
    assert [row.before is None for row in rows] == [True, True, True, False, False, False, False]
    assert rows[1].after["origin"] == "http://127.0.0.1:9100"
    assert rows[2].after["url"] == rows[4].before["url"] == URL
    assert rows[3].before.keys() == rows[3].after.keys() == {"fingerprint"}
    assert rows[6].before["header"] == "X-Key"
    assert endpoint.pk == int(rows[4].object_id)


def test_change_that_is_refused_leaves_no_row(admin):
    vendor_operations.create_vendor(actor=admin, name="Acme")
    trail = AuditEntry.objects.count()

    for refused in (
        lambda: vendor_operations.create_vendor(actor=admin, name="Acme"),
        lambda: make_credential(secret=""),
        lambda: vendor_operations.create_endpoint(
            actor=admin, vendor=Vendor.objects.get(), protocol="a2t", url="nope"
        ),
    ):
        with pytest.raises(DomainError):
            refused()

    assert AuditEntry.objects.count() == trail


@pytest.mark.django_db(transaction=True)
def test_endpoint_is_removed_while_its_run_is_being_recorded(vendor, admin, monkeypatch):
    endpoint = make_endpoint(url=vendor.url)
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    finish = enumeration_runs.store.finish
    removing = threading.Thread(target=remove, args=(endpoint.pk, admin))

    def finish_slowly(run, **changes):
        is_ours = finish(run, **changes)
        removing.start()
        removing.join(0.3)
        return is_ours

    monkeypatch.setattr(enumeration_runs.store, "finish", finish_slowly)
    enumeration_runs.perform(run.pk)
    removing.join()

    run.refresh_from_db()
    assert (run.status, run.error_code) == ("succeeded", "")
    assert Endpoint.objects.get().removed_at
    assert set(Tool.objects.values_list("status", flat=True)) == {"withdrawn"}


def remove(pk: int, actor) -> None:
    try:
        vendor_operations.remove_endpoint(Endpoint.objects.get(pk=pk), actor=actor)
    finally:
        connection.close()
