import pytest

from catalog.credentials import sessions
from catalog.models import Credential
from people.models import AuditEntry
from tests.factories import make_endpoint

pytestmark = pytest.mark.django_db
URL = "/api/v1/credentials/"
GIVEN = {"name": "Main key", "kind": "bearer", "url": "https://api.acme.example/v1", "secret": "s3cret-key"}


def refusal(answer) -> tuple[int, str, set[str]]:
    body = answer.json()
    return answer.status_code, body["code"], set(body.get("fields", {}))


def test_credential_shows_its_state_and_never_its_secret(admin_api):
    response = admin_api.post(URL, GIVEN)

    assert response.status_code == 201
    row = response.json()
    assert row == {
        "id": str(Credential.objects.get().pk),
        "name": "Main key",
        "kind": "bearer",
        "origin": "https://api.acme.example",
        "header": "",
        "username": "",
        "parameter": "",
        "issuer": "",
        "subject": "",
        "audience": "",
        "lifetime_seconds": None,
        "certificate": "",
        "access_key_id": "",
        "region": "",
        "service": "",
        "fingerprint": Credential.objects.get().fingerprint,
        "set_at": row["set_at"],
        "set_by": row["set_by"],
        "client": None,
        "status": {
            "state": "new",
            "message": "No vendor has been sent it yet.",
            "remedy": None,
            "used_at": None,
            "renewed_at": None,
            "expires_at": None,
            "signed_in_at": None,
            "signed_in_by": "",
            "in_doubt_since": None,
            "error": None,
            "scopes": None,
        },
        "endpoints": [],
    }
    assert admin_api.get(f"{URL}{row['id']}/").json() == row
    assert admin_api.get(URL).json()["results"] == [row]


@pytest.mark.parametrize(
    ("secret", "is_said"),
    [("an0ther", True), ("an0ther1", False), (r"a\b\c\d\e", True), ("a%20words+", False)],
)
def test_a_secret_that_is_too_short_to_be_found_again_is_said(admin_api, secret, is_said):
    row = admin_api.post(URL, GIVEN | {"secret": secret}).json()
    assert ("a reply that repeats it is not refused" in row["status"]["message"]) is is_said
    page = admin_api.get(f"/credentials/{row['id']}/").content.decode()
    assert ("a reply that repeats it is not refused" in page) is is_said


def test_secret_is_replaced_and_the_trail_says_so_without_it(admin_api):
    row = admin_api.post(URL, GIVEN).json()

    replaced = admin_api.put(f"{URL}{row['id']}/", {"secret": "an0ther one"}).json()

    assert sessions.decrypt(Credential.objects.get()).reveal() == "an0ther one"
    assert replaced["fingerprint"] != row["fingerprint"]
    assert replaced["set_at"] > row["set_at"]
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.before, entry.after) == (
        "replace",
        {"fingerprint": row["fingerprint"]},
        {"fingerprint": replaced["fingerprint"]},
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 300}, "name"),
        ({"kind": "ticket"}, "kind"),
        ({"kind": None}, "kind"),
        ({"url": "nope"}, "url"),
        ({"url": "https://user:pw@api.acme.example/"}, "url"),
        ({"secret": ""}, "secret"),
        ({"secret": "two\nlines"}, "secret"),
        ({"secret": "tab\there"}, "secret"),
        ({"secret": "x" * 8_001}, "secret"),
        ({"secret": 12345}, "secret"),
        ({"secret": None}, "secret"),
        ({"kind": "header"}, "header"),
        ({"kind": "header", "header": "Content-Length"}, "header"),
        ({"kind": "header", "header": "x" * 65}, "header"),
        ({"kind": "header", "header": "X-Key: 1"}, "header"),
        ({"kind": "basic"}, "username"),
        ({"kind": "basic", "username": "ada:x"}, "username"),
        ({"kind": "query"}, "parameter"),
        ({"kind": "query", "parameter": "key&x=1"}, "parameter"),
        ({"kind": "jwt", "lifetime_seconds": 901}, "lifetime_seconds"),
        ({"kind": "jwt", "lifetime_seconds": 5}, "lifetime_seconds"),
        ({"kind": "jwt", "audience": "x" * 201}, "audience"),
        ({"kind": "jwt", "issuer": "two\nlines"}, "issuer"),
    ],
)
def test_bad_member_is_refused_at_its_field(admin_api, body, field):
    answer = admin_api.post(URL, GIVEN | body)

    assert refusal(answer) == (400, "invalid", {field})
    assert not Credential.objects.exists()
    assert not AuditEntry.objects.exists()


def test_body_with_a_nul_byte_is_refused(admin_api):
    answer = admin_api.generic("POST", URL, b'{"secret": "s3cret\\u0000"}', content_type="application/json")

    assert refusal(answer) == (400, "invalid", {"secret"})
    assert not Credential.objects.exists()


def test_bad_new_secret_leaves_the_old_one(admin_api):
    pk = admin_api.post(URL, GIVEN).json()["id"]

    assert refusal(admin_api.put(f"{URL}{pk}/", {"secret": "two\nlines"})) == (400, "invalid", {"secret"})
    assert refusal(admin_api.put(f"{URL}{pk}/", {})) == (400, "invalid", {"secret"})
    assert sessions.decrypt(Credential.objects.get()).reveal() == "s3cret-key"


def test_installation_without_a_key_takes_no_secret(admin_api, settings):
    settings.KEYS = []

    answer = admin_api.post(URL, GIVEN)

    assert refusal(answer) == (400, "no_key", set())
    assert "PEGBOARD_KEYS" in answer.json()["message"]


def test_credential_in_use_is_kept(admin_api):
    pk = admin_api.post(URL, GIVEN).json()["id"]
    endpoint = make_endpoint(url=GIVEN["url"], credential_id=pk, name="Main")

    assert refusal(admin_api.delete(f"{URL}{pk}/")) == (409, "credential_in_use", set())

    admin_api.patch(f"/api/v1/endpoints/{endpoint.pk}/", {"credential": None})
    assert admin_api.delete(f"{URL}{pk}/").status_code == 204
    assert Credential.objects.get().sealed == ""
    for answer in (
        admin_api.get(f"{URL}{pk}/"),
        admin_api.put(f"{URL}{pk}/", {"secret": "x"}),
        admin_api.delete(f"{URL}{pk}/"),
    ):
        assert answer.status_code == 404
    assert refusal(admin_api.patch(f"/api/v1/endpoints/{endpoint.pk}/", {"credential": pk})) == (
        400,
        "invalid",
        {"credential"},
    )


def test_designer_reads_the_state_and_changes_nothing(admin_api, designer_api):
    pk = admin_api.post(URL, GIVEN).json()["id"]
    path = f"{URL}{pk}/"

    assert designer_api.get(path).status_code == 200
    for method, where in (("post", URL), ("put", path), ("delete", path)):
        answer = getattr(designer_api, method)(where, GIVEN)
        assert refusal(answer) == (403, "role_required", set())
    assert refusal(admin_api.patch(path, {"client": {}})) == (400, "invalid", {"client"})


def test_schema_never_offers_a_secret_to_read(admin_api):
    components = admin_api.get("/api/schema/?format=json").json()["components"]["schemas"]

    outputs = {name: schema for name, schema in components.items() if not name.endswith("Request")}
    assert "CredentialOutput" in outputs
    for made_by_us in ("NewWebhookOutput", "SecretOutput"):  # what signs webhooks, shown once
        outputs.pop(made_by_us, None)
    assert not [name for name, schema in outputs.items() if "secret" in schema.get("properties", {})]


def test_list_pages_and_costs_the_same_however_long(admin_api, django_assert_max_num_queries):
    ids = [admin_api.post(URL, GIVEN | {"name": name}).json()["id"] for name in "CABBD"]

    with django_assert_max_num_queries(4):
        first = admin_api.get(f"{URL}?limit=3").json()
    second = admin_api.get(first["next"]).json()

    rows = first["results"] + second["results"]
    assert [row["name"] for row in rows] == ["A", "B", "B", "C", "D"]
    assert {row["id"] for row in rows} == set(ids)


EDITED = {
    "bearer": ({}, {}, {}),
    "header": ({"header": "X-Key"}, {"header": "X-Api-Key"}, {"header": "Host"}),
    "query": ({"parameter": "key"}, {"parameter": "api_key"}, {"parameter": "a b"}),
    "basic": ({"username": "us"}, {"username": "pegboard"}, {"username": "a:b"}),
    "jwt": ({"issuer": "us"}, {"issuer": "", "lifetime_seconds": 60}, {"subject": "x" * 200 + "\u0007"}),
}


@pytest.mark.parametrize("kind", EDITED)
def test_name_and_details_are_changed_and_the_secret_stays(admin_api, kind):
    fields, changed, wrong = EDITED[kind]
    created = admin_api.post(URL, GIVEN | {"kind": kind} | fields).json()
    path, before = f"{URL}{created['id']}/", Credential.objects.get()
    Credential.objects.update(refused_at=before.set_at)

    answer = admin_api.patch(path, {"name": "Sandbox key"} | changed)
    assert answer.status_code == 200
    assert {name: answer.json()[name] for name in ("name", *changed)} == {"name": "Sandbox key"} | changed
    after = Credential.objects.get()
    assert (after.sealed, after.fingerprint, after.origin) == (
        before.sealed,
        before.fingerprint,
        before.origin,
    )
    assert (after.refused_at is None) == bool(changed), "nobody has seen the new details yet"
    row = AuditEntry.objects.get(action="edit")
    assert (row.before["name"], row.after["name"]) == ("Main key", "Sandbox key")
    assert GIVEN["secret"] not in f"{row.before}{row.after}{answer.content.decode()}"

    if wrong:
        assert refusal(admin_api.patch(path, wrong)) == (400, "invalid", {*wrong})
    assert refusal(admin_api.patch(path, {"name": "\u200b"}))[0] == 400
    assert Credential.objects.get().name == "Sandbox key"


def test_what_a_kind_does_not_have_is_refused_rather_than_dropped(admin_api):
    path = f"{URL}{admin_api.post(URL, GIVEN).json()['id']}/"
    assert refusal(admin_api.patch(path, {"header": "X-Key"})) == (400, "invalid", {"header"})
    assert refusal(admin_api.patch(path, {"client": {"scope": "read"}})) == (400, "invalid", {"client"})
    admin_api.patch(path, {"url": "https://evil.example/", "origin": "https://evil.example"})
    assert Credential.objects.get().origin == "https://api.acme.example"
    assert not AuditEntry.objects.filter(action="edit").exists()


def test_later_of_two_edits_is_told_what_the_first_one_wrote(admin_api):
    path = f"{URL}{admin_api.post(URL, GIVEN).json()['id']}/"
    etag = admin_api.get(path).headers["ETag"]
    assert admin_api.patch(path, {"name": "First"}, headers={"If-Match": etag}).status_code == 200

    late = admin_api.patch(path, {"name": "Second", "secret": "an0ther"}, headers={"If-Match": etag})

    assert refusal(late)[:2] == (409, "changed_meanwhile")
    assert [row["theirs"] for row in late.json()["changes"] if row["path"] == "name"] == ["First"]
    assert Credential.objects.get().name == "First"
    row = Credential.objects.get()
    assert sessions.decrypt(row).reveal() == GIVEN["secret"]
    assert admin_api.patch(path, {"secret": "an0ther"}).status_code == 200
    assert sessions.decrypt(Credential.objects.get()).reveal() == "an0ther"


REGISTERS = {"registration_url": "https://auth.acme.example/register"}


@pytest.mark.parametrize(
    ("fields", "expected_start"),
    [
        ({"kind": "oauth_client"}, "Only a credential that a person signs in for registers itself."),
        ({"secret": "s3cret-key"}, "Send either a client that you have, or the address to register at."),
        ({"client": {"client_id": "ours"}}, "Send either a client that you have"),
    ],
)
def test_what_would_be_lost_in_registering_is_refused_before_a_server_is_asked(
    admin_api, fields, expected_start
):
    client = REGISTERS | fields.get("client", {})
    body = {"name": "Main", "kind": "oauth_code", "url": GIVEN["url"], **fields, "client": client}
    answer = admin_api.post(URL, body, format="json")
    assert refusal(answer) == (400, "invalid", {"client"})
    assert answer.json()["fields"]["client"].startswith(expected_start)
