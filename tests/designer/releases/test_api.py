import hashlib
import json
import re
import threading

import pytest
from django.db import InternalError, connection, transaction
from django.db.utils import IntegrityError

from catalog.models import Finding
from catalog.models.findings import FindingState
from core.errors import DomainError
from designer import exports
from designer.exports.base import Format, FormatLimits
from designer.models import Export, Pin, Release
from designer.releases import publishing
from people.models import AuditEntry, Role
from tests.clients import client_of
from tests.designer.exports.formats import PROVED
from tests.factories import (
    make_agent,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_version,
)
from tests.module_data import module_data
from tests.pages import signed_in

URL = "/api/v1/agents/desk/releases/"


@module_data
def desk():
    return make_agent(slug="desk", name="Desk")


@module_data
def pin(desk):
    return make_pin(desk)


@module_data
def release(alice, pin):
    return client_of(alice).post(URL, {"note": "First", "channel": "live"}).json()


def test_publishing_makes_a_numbered_release(api, pin, alice):
    reply = api.post(URL, {"note": "First"})

    assert reply.status_code == 201
    assert reply.json() | {"created_at": None} == {
        "agent": "desk",
        "number": 1,
        "digest": Release.objects.get().digest,
        "tools": 1,
        "accepted": [],
        "reason": "",
        "note": "First",
        "created_by": "alice",
        "created_at": None,
        "retirement": None,
    }
    (entry,) = AuditEntry.objects.filter(action="publish")
    assert (entry.actor, entry.after["number"]) == (alice, 1)


@pytest.mark.parametrize("change", [{"name": "Counter"}, {"description": "Other"}, {"slug": "counter"}])
def test_an_agent_that_is_called_otherwise_can_be_published_again(api, release, change):
    api.patch("/api/v1/agents/desk/", change)
    slug = change.get("slug", "desk")

    again = api.post(f"/api/v1/agents/{slug}/releases/")

    assert (again.status_code, again.json()["number"]) == (201, 2)
    bundle = api.get(f"/api/v1/agents/{slug}/releases/2/bundle/").json()
    assert bundle["agent"] | change == bundle["agent"]
    assert api.post(f"/api/v1/agents/{slug}/releases/").json()["code"] == "nothing_changed"


def test_digest_is_that_of_the_bundle(runtime_api, release):
    bundle = runtime_api.get(f"{URL}1/bundle/")

    assert hashlib.sha256(bundle.content).hexdigest() == release["digest"]
    assert (
        json.dumps(bundle.json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        == bundle.content.decode()
    )


def test_bundle_holds_words_names_and_origin(api, desk):
    tool = make_tool(make_signature("Look up", inputs=(make_parameter("Zip code"),)))
    pin = make_pin(desk, tool, name="look_up")
    api.put(f"/api/v1/agents/desk/pins/{pin.pk}/tuning/", {"description": "Ours"})
    api.put(f"/api/v1/tools/{tool.pk}/tuning/", {"parameters": {"Zip code": {"description": "Catalog"}}})
    api.post(URL)

    (tool_row,) = api.get(f"{URL}1/bundle/").json()["tools"]

    assert tool_row["tool_id"] == tool.tool_id
    assert tool_row["endpoint"] == tool.endpoint.url
    assert tool_row["version"] == {"ordinal": 1, "label": "1", "digest": tool.current.digest}
    assert (tool_row["signature"]["name"], tool_row["signature"]["wire_name"]) == ("look_up", "Look up")
    (zip_code,) = tool_row["signature"]["inputs"]
    assert (zip_code["alias"], zip_code["parameter"]["name"]) == ("Zip_code", "Zip code")
    assert tool_row["tuning"]["agent"] == {"description": "Ours"}
    assert tool_row["tuning"]["catalog"] == {"parameters": {"Zip code": {"description": "Catalog"}}}


@pytest.mark.parametrize("name", PROVED)
def test_every_format_shows_the_effective_words(runtime_api, api, pin, name):
    api.put(f"/api/v1/agents/desk/pins/{pin.pk}/tuning/", {"description": "Chosen by us"})
    api.post(URL, {"channel": "live"})

    reply = runtime_api.get(f"{URL}live/tools/", {"format": name})

    assert reply.status_code == 200
    assert reply.headers["Content-Type"] == "application/json"
    assert "Chosen by us" in reply.content.decode()
    assert "Tomorrow's weather" not in reply.content.decode()


@pytest.mark.parametrize("name", PROVED)
def test_bytes_stay_when_vendor_words_and_vendor_go(runtime_api, api, release, pin, name):
    before = runtime_api.get(f"{URL}1/tools/", {"format": name}).content

    make_version(pin.tool)
    api.put(f"/api/v1/agents/desk/pins/{pin.pk}/tuning/", {"description": "Other words"})
    endpoint = pin.tool.endpoint
    endpoint.removed_at = endpoint.vendor.removed_at = pin.created_at
    endpoint.save()
    endpoint.vendor.save()
    api.delete(f"/api/v1/agents/desk/pins/{pin.pk}/")

    assert runtime_api.get(f"{URL}1/tools/", {"format": name}).content == before


def test_release_and_export_are_frozen_against_sql(release):
    for statement in (
        "UPDATE designer_release SET note = 'x'",
        "DELETE FROM designer_export",
        "UPDATE designer_export SET body = 'x'",
        "DELETE FROM designer_release",
    ):
        with (
            pytest.raises((IntegrityError, InternalError)),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)


def test_reader_that_has_it_gets_304(runtime_api, release):
    first = runtime_api.get(f"{URL}1/tools/", {"format": "mcp"})
    etag = first.headers["ETag"]

    assert etag == f'"{release["digest"]}"'
    for etags in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        again = runtime_api.get(f"{URL}1/tools/", {"format": "mcp"}, headers={"If-None-Match": etags})
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", etag)
    for etags in ('"other"', release["digest"], '""'):
        again = runtime_api.get(f"{URL}1/tools/", {"format": "mcp"}, headers={"If-None-Match": etags})
        assert (again.status_code, again.content) == (200, first.content)


def test_304_reads_the_release_once(runtime_api, release, django_assert_num_queries):
    etag = f'"{release["digest"]}"'
    runtime_api.get(f"{URL}1/bundle/")

    with django_assert_num_queries(3):  # in the view: the key with its owner, the release, the receipt
        query = {"format": "mcp", "partial": "1"}
        same = runtime_api.get(f"{URL}live/tools/", query, headers={"If-None-Match": etag})
    assert same.status_code == 304


def test_numbers_have_no_gaps(api, desk):
    for number in range(1, 4):
        make_pin(desk)
        assert api.post(URL).json()["number"] == number
        assert api.post(URL).status_code == 409


def test_nothing_to_publish_and_nothing_new_are_told(api, desk):
    assert (api.post(URL).status_code, api.post(URL).json()["code"]) == (409, "nothing_to_publish")

    make_pin(desk)
    api.post(URL)

    again = api.post(URL, {"note": "Same tools"})
    assert (again.status_code, again.json()["code"]) == (409, "nothing_changed")


def test_hidden_input_that_would_show_stops_publishing(api, desk):
    tool = make_tool(make_signature(inputs=(make_parameter("key", required=False),)))
    pin = make_pin(desk, tool)
    api.put(f"/api/v1/agents/desk/pins/{pin.pk}/tuning/", {"parameters": {"key": {"hidden": True}}})
    make_version(tool, make_signature(inputs=(make_parameter("key", required=True),)))
    api.patch(f"/api/v1/agents/desk/pins/{pin.pk}/", {"version": 2})

    reply = api.post(URL)

    assert (reply.status_code, reply.json()["code"]) == (409, "checks_failed")
    assert reply.json()["checks"][0]["code"] == "tuning_does_not_fit"
    assert "key" in reply.json()["message"]
    assert not Release.objects.exists()


def test_blocked_version_stops_publishing(api, pin):
    Finding.objects.create(
        endpoint=pin.tool.endpoint,
        tool=pin.tool,
        version=pin.version,
        code="DRIFT",
        severity="high",
        subject="x",
        message="Changed in place",
        state=FindingState.BLOCKED,
    )

    assert api.post(URL).json()["checks"][0]["code"] == "version_blocked"


def test_format_that_cannot_carry_a_release_holds_up_no_other(api, desk):
    make_pin(desk, make_tool(make_signature(description="x" * 3000)))
    api.post(URL)

    refused = api.get(f"{URL}1/tools/", {"format": "a2t"})

    assert (refused.status_code, refused.json()["code"]) == (409, "format_cannot_carry")
    assert "3000 characters" in refused.json()["message"]
    assert api.get(f"{URL}1/tools/", {"format": "mcp"}).status_code == 200
    formats = {row["name"]: row for row in api.get(f"{URL}1/").json()["formats"]}
    assert [row["is_available"] for row in formats.values()] == [
        name not in ("a2t", "skill") for name in formats
    ]
    assert formats["a2t"]["remarks"][0]["level"] == "blocks"


@module_data
def mixed(alice, desk):
    """Two tools that A2T can carry, and two that it cannot."""
    for name in ("fits", "too_long", "json_in", "fits_too"):
        inputs = (make_parameter(type="json" if name == "json_in" else "string"),)
        words = "x" * (3_000 if name == "too_long" else 30)
        make_pin(desk, make_tool(make_signature(name, description=words, inputs=inputs)))
    return client_of(alice).post(URL, {"channel": "live"}).json()


PARTIAL = {"format": "a2t", "partial": "1"}


def test_the_line_to_copy_fetches_a_format_that_leaves_out_no_tool(alice, mixed):
    page = signed_in(Role.DESIGNER).get("/agents/desk/releases/1/").content.decode()

    (line,) = re.findall(r'<code id="curl".*?</code>', page)
    assert "format=json-schema" in line
    assert "partial" not in line


def test_tools_that_do_not_fit_are_left_out_by_name_when_asked(api, mixed):
    document = api.get(f"{URL}1/tools/", PARTIAL)

    assert document.status_code == 200
    assert [item["name"] for item in document.json()["items"]] == ["fits", "fits_too"]
    formats = {row["name"]: row["left_out"] for row in api.get(f"{URL}1/").json()["formats"]}
    out = {"a2t": ["json_in", "too_long"], "openai-strict": ["json_in"]}
    assert formats == {name: out.get(name, []) for name in formats}
    refused = api.get(f"{URL}1/tools/", {"format": "a2t"})
    assert (refused.status_code, refused.json()["code"]) == (409, "format_cannot_carry")
    assert "partial=1 to leave out 2 of 4 tools" in refused.json()["message"]


def test_partial_document_keeps_its_bytes_and_has_an_etag_of_its_own(api, mixed, monkeypatch):
    first = api.get(f"{URL}1/tools/", PARTIAL)
    assert first.headers["ETag"] == f'"{mixed["digest"]}.partial"'
    monkeypatch.setattr(
        "designer.releases.publishing.carried", lambda *_: 1 / 0
    )  # it was written when it was published
    again = api.get(f"{URL}live/tools/", PARTIAL)
    assert (again.content, again.headers["ETag"]) == (first.content, first.headers["ETag"])
    same = api.get(f"{URL}1/tools/", PARTIAL, headers={"If-None-Match": first.headers["ETag"]})
    assert (same.status_code, same.content) == (304, b"")
    all_tools = api.get(f"{URL}1/tools/", PARTIAL, headers={"If-None-Match": f'"{mixed["digest"]}"'})
    assert (all_tools.status_code, all_tools.content) == (200, first.content)


def test_partial_document_of_what_fits_is_the_whole_one(api, mixed):
    full, partial = (
        api.get(f"{URL}1/tools/", {"format": "mcp", "partial": partial}) for partial in ("0", "1")
    )
    assert (full.content, full.headers["ETag"]) == (partial.content, partial.headers["ETag"])


@pytest.mark.parametrize("etags", ['"{}"', '"{}.partial"', "*", 'W/"{}"'])
def test_what_is_refused_is_never_called_unchanged(api, mixed, etags):
    headers = {"If-None-Match": etags.format(mixed["digest"])}
    for query in ({"format": "a2t"}, {"format": "a2t", "partial": "0"}):
        assert api.get(f"{URL}1/tools/", query, headers=headers).status_code == 409
    assert api.get(f"{URL}1/tools/", {"format": "yaml"}, headers=headers).status_code == 400


def test_nothing_is_left_when_no_tool_fits(api, desk):
    make_pin(desk, make_tool(make_signature(description="x" * 3000)))
    digest = api.post(URL).json()["digest"]
    for etag in ("", f'"{digest}.partial"', "*"):
        refused = api.get(f"{URL}1/tools/", PARTIAL, headers={"If-None-Match": etag})
        assert (refused.status_code, refused.json()["code"]) == (409, "format_cannot_carry")
        assert "Use another format" in refused.json()["message"]


def test_partial_is_one_or_nothing(api, mixed):
    refused = api.get(f"{URL}1/tools/", {"format": "a2t", "partial": "yes"})
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["partial"])


def test_a_release_from_before_partial_documents_has_one_on_first_request(api, mixed, monkeypatch):
    added = Format(
        name="later",
        label="Later",
        limits=FormatLimits(source="here", date="2026-11-21", carries=frozenset(), tool_description=100),
        write=lambda release: [tool.signature.name for tool in release.tools],
    )
    monkeypatch.setattr(exports, "FORMATS", (*exports.FORMATS, added))
    query = {"format": "later", "partial": "1"}
    headers = {"If-None-Match": f'"{mixed["digest"]}.partial"'}
    assert api.get(f"{URL}1/tools/", {"format": "later"}, headers=headers).status_code == 409
    assert not Export.objects.filter(format__startswith="later").exists()
    assert api.get(f"{URL}1/tools/", query, headers=headers).status_code == 304
    assert api.get(f"{URL}1/tools/", query).json() == ["fits", "fits_too", "json_in"]
    assert Export.objects.get(format="later.partial").release.number == 1


@pytest.mark.parametrize("query", [{}, {"format": ""}, {"format": "yaml"}, {"format": "api"}])
def test_unknown_format_is_refused_with_the_names(api, release, query):
    reply = api.get(f"{URL}1/tools/", query)

    assert reply.status_code == 400
    assert reply.json()["code"] == "unknown_format"
    assert all(name in reply.json()["message"] for name in PROVED)


@pytest.mark.parametrize("number", ["2", "0", "-1", "1.0", "99999999999999999999"])
def test_unknown_release_is_not_found(api, release, number):
    for path in ("", "tools/?format=mcp", "bundle/"):
        reply = api.get(f"{URL}{number}/{path}")
        assert (reply.status_code, reply.json()["code"]) == (404, "not_found")


def test_agent_without_release_has_no_live_one(api, desk):
    reply = api.get(f"{URL}live/tools/?format=mcp")
    assert (reply.status_code, reply.json()["code"]) == (404, "channel_empty")


def test_any_accept_header_gets_the_stored_bytes(api, release):
    assert api.get(f"{URL}1/bundle/", headers={"Accept": "text/html"}).status_code == 200


def test_runtime_token_reads_releases_only(runtime_api, release, pin):
    assert runtime_api.get(URL).status_code == 200
    assert runtime_api.get(f"{URL}1/").status_code == 200
    assert runtime_api.post(URL).status_code == 403
    assert runtime_api.get("/api/v1/agents/").status_code == 403
    assert runtime_api.get("/api/v1/agents/desk/pins/").status_code == 403


def test_bad_note_is_named(api, pin):
    assert "note" in api.post(URL, {"note": "x" * 2001}).json()["fields"]
    assert api.post(URL, {"note": "a\0b"}).status_code == 400


def test_format_added_later_is_written_on_first_request_and_kept(api, release, monkeypatch):
    added = Format(
        name="added-later",
        label="Added later",
        limits=FormatLimits(source="here", date="2026-11-21", carries=frozenset()),
        write=lambda release: [tool.signature.name for tool in release.tools],
    )
    monkeypatch.setattr(exports, "FORMATS", (*exports.FORMATS, added))

    first = api.get(f"{URL}1/tools/", {"format": "added-later"})

    assert first.json() == [Pin.objects.get().name]
    assert Export.objects.get(format="added-later").as_bytes() == first.content
    assert "added-later" in [row["name"] for row in api.get(f"{URL}1/").json()["formats"]]


@pytest.mark.parametrize("name", PROVED)
def test_a_release_from_before_a_format_is_written_in_it(api, pin, name, monkeypatch):
    formats = exports.FORMATS
    with monkeypatch.context() as before:
        before.setattr(exports, "FORMATS", tuple(format_ for format_ in formats if format_.name != name))
        digest = api.post(URL).json()["digest"]
    headers = {"If-None-Match": f'"{digest}"'}
    assert not Export.objects.filter(format=name).exists()

    first = api.get(f"{URL}1/tools/", {"format": name})

    assert (first.status_code, first["ETag"]) == (200, f'"{digest}"')
    assert Export.objects.get(format=name).as_bytes() == first.content
    assert api.get(f"{URL}1/tools/", {"format": name}, headers=headers).status_code == 304


def test_format_that_is_no_json_is_answered_as_a_file(api, release, monkeypatch):
    packed = Format(
        name="packed",
        label="Packed",
        limits=FormatLimits(source="here", date="2026-11-22", carries=frozenset()),
        write=lambda release: b"PK" + release.agent.slug.encode(),
        media_type="application/zip",
        suffix="zip",
    )
    monkeypatch.setattr(exports, "FORMATS", (*exports.FORMATS, packed))
    query = {"format": "packed"}

    for _ in range(2):  # written, then kept
        answer = api.get(f"{URL}1/tools/", query)
        assert (answer.content, answer["Content-Type"]) == (b"PKdesk", "application/zip")
        assert answer["Content-Disposition"] == 'attachment; filename="desk-1.packed.zip"'
    page = api.get("/agents/desk/releases/1/?format=packed").content.decode()
    assert 'download="desk-1.packed.zip"' in page
    assert "?format=packed#export" not in page
    assert "PKdesk" not in page


def test_verify_finds_what_is_not_as_it_was_published(release):
    stored = Release.objects.get()
    assert publishing.verify(stored) == []

    stored.document = stored.document.replace("Tomorrow", "Yesterday")

    assert publishing.verify(stored) == ["The document does not match its digest."]


def test_verify_compares_each_version_with_the_catalog(release):
    stored = Release.objects.get()
    digest = stored.document.split('"digest":"')[1][:64]
    stored.document = stored.document.replace(digest, "0" * 64)

    assert len(publishing.verify(stored)) == 2


def test_list_costs_the_same_whatever_its_length(api, desk, django_assert_max_num_queries):
    for _ in range(3):
        make_pin(desk)
        api.post(URL)

    with django_assert_max_num_queries(4):
        rows = api.get(URL).json()["results"]
    assert [row["number"] for row in rows] == [3, 2, 1]


@pytest.mark.django_db(transaction=True)
def test_two_publishers_make_one_release():
    agent, actor = make_agent(), make_user(Role.DESIGNER)
    make_pin(agent)
    outcomes = []

    def publish():
        try:
            outcomes.append(publishing.publish(agent, actor=actor, channel="live").number)
        except DomainError as error:
            outcomes.append(error.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=publish) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes, key=str) == [1, *["nothing_changed"] * 3]


@pytest.mark.django_db(transaction=True)
def test_two_first_requests_for_a_new_format_get_the_same_bytes(monkeypatch):
    agent, actor = make_agent(), make_user(Role.DESIGNER)
    make_pin(agent)
    release = publishing.publish(agent, actor=actor, channel="live")
    together = threading.Barrier(3)
    late = Format(
        name="late",
        label="Late",
        limits=FormatLimits(source="here", date="2026-11-21", carries=frozenset()),
        write=lambda release: [together.wait(timeout=10) * 0],
    )
    monkeypatch.setattr(exports, "FORMATS", (*exports.FORMATS, late))
    bodies = []

    def fetch():
        try:
            bodies.append(publishing.export(release, "late"))
        finally:
            connection.close()

    threads = [threading.Thread(target=fetch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert bodies == [(b"[0]", "late")] * 3
    assert Export.objects.filter(format="late").count() == 1
