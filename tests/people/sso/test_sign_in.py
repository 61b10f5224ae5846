"""Signing in at an OpenID provider, and what attackers try with it."""

import base64
import hashlib
import hmac
import json
import time
from urllib.parse import urlencode

import jwt
import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.test import Client

from people.models import AuditEntry, Identity, Role, User
from people.sso import provider
from tests.factories import PASSWORD, make_user
from tests.identity_provider import (
    CLIENT,
    EC_KEY,
    FOREIGN_KEY,
    PUBLIC_PEM,
    RSA_KEY,
    SECRET,
    WEAK_KEY,
    IdentityProvider,
    jwk,
)
from tests.pages import text_of

pytestmark = pytest.mark.django_db
START, DONE, LINK = (f"/accounts/single-sign-on/{part}" for part in ("", "done/", "link/"))
ROLES = {"pegboard-admins": "admin", "pegboard designers": "designer", "staff": "viewer"}


@pytest.fixture
def idp(settings, caplog):
    provider.clear_cache()
    with IdentityProvider() as idp:
        settings.OIDC = {
            "issuer": idp.issuer,
            "client_id": CLIENT,
            "client_secret": SECRET,
            "name": "Example ID",
            "scopes": "openid profile email",
            "roles_claim": "",
            "roles": {},
            "default_role": "viewer",
            "domains": [],
        }
        idp.caplog = caplog
        yield idp
    provider.clear_cache()


@pytest.fixture
def mapped(idp, settings):
    settings.OIDC |= {"roles_claim": "groups", "roles": ROLES, "default_role": "none"}
    return idp


def come_back(client: Client, idp: IdentityProvider, **changed: str):
    """Away and back, with an answer that a test may change; None leaves a member out."""
    answer = idp.authorize(client.get(START).headers["Location"]) | changed
    return client.get(DONE, {name: value for name, value in answer.items() if value is not None})


def is_in(client: Client) -> bool:
    return client.get("/keys/").status_code == 200


def assert_refused(client: Client, idp: IdentityProvider, answer, code: str) -> None:
    """The code is in the log alone: the page shows an attacker nothing."""
    assert answer.status_code in (400, 403, 502)
    codes = [record.args[0] for record in idp.caplog.records if record.name == "people.sso.views"]
    assert codes[-1].startswith(code)
    assert not is_in(client)
    assert not User.objects.filter(username="ada").exists()


def test_first_visit_makes_a_viewer_and_later_visits_find_them(client, idp):
    answer = come_back(client, idp)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    assert is_in(client)
    user = User.objects.get(username="ada")
    assert (user.name, user.role, user.has_usable_password()) == ("Ada Berger", Role.VIEWER, False)
    idp.claims |= {"preferred_username": "ada.married", "name": "Ada Other"}
    again = Client()
    come_back(again, idp)
    assert is_in(again)
    assert User.objects.count() == 1
    added, linked = AuditEntry.objects.order_by("pk").values_list("action", "why")
    assert added == ("add person", "single sign-on")
    assert linked[0] == "link identity"


def test_page_that_was_asked_for_is_opened_and_no_other_site(client, idp):
    for after, lands in (("/audit/", "/audit/"), ("https://evil.example/", "/"), ("//evil.example", "/")):
        location = client.get(START, {"next": after}).headers["Location"]
        assert client.get(DONE, idp.authorize(location)).headers["Location"] == lands
        client.post("/accounts/logout/")


def test_session_gets_a_new_key(client, idp):
    location = client.get(START).headers["Location"]
    before = client.session.session_key
    client.get(DONE, idp.authorize(location))
    assert client.session.session_key != before
    assert "single_sign_on" not in client.session


@pytest.mark.parametrize("members", [{"token_endpoint_auth_methods_supported": ["client_secret_post"]}, {}])
def test_client_proves_itself_as_the_provider_wants(client, idp, members):
    idp.metadata = members
    come_back(client, idp)
    assert is_in(client)


def test_elliptic_keys_are_taken_too(client, idp):
    idp.sign = lambda claims: idp.signed(claims, key=EC_KEY, alg="ES256", kid="e1")
    come_back(client, idp)
    assert is_in(client)


def test_new_key_of_the_provider_is_read_when_a_token_names_it(client, idp, monkeypatch):
    come_back(client, idp)
    idp.keys = [jwk(FOREIGN_KEY, "r2")]
    idp.sign = lambda claims: idp.signed(claims, key=FOREIGN_KEY, kid="r2")
    monkeypatch.setattr(provider, "REFETCH_SECONDS", 0.0)
    again = Client()
    come_back(again, idp)
    assert is_in(again)


def unsigned(claims: dict) -> str:
    return jwt.encode(claims, "", algorithm="none")


def hmac_with_public_key(claims: dict) -> str:
    """Sign by hand, because the library refuses to sign with a text that looks like a public key."""

    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    head = part(json.dumps({"alg": "HS256", "typ": "JWT", "kid": "r1"}).encode())
    signed = f"{head}.{part(json.dumps(claims).encode())}"
    return f"{signed}.{part(hmac.digest(PUBLIC_PEM, signed.encode(), hashlib.sha256))}"


def with_its_own_key(idp: IdentityProvider, claims: dict) -> str:
    return idp.signed(
        claims, key=FOREIGN_KEY, kid="r1", jwk=jwk(FOREIGN_KEY, "r1"), jku="http://127.0.0.1:9/"
    )


FORGERIES = {
    "alg none": lambda idp, claims: unsigned(claims),
    "HS256 with the public key": lambda idp, claims: hmac_with_public_key(claims),
    "a foreign key": lambda idp, claims: idp.signed(claims, key=FOREIGN_KEY),
    "a key of its own in the header": with_its_own_key,
    "a key that is not there": lambda idp, claims: idp.signed(claims, key=FOREIGN_KEY, kid="r9"),
    "RS512": lambda idp, claims: idp.signed(claims, alg="RS512"),
    "a critical extension": lambda idp, claims: idp.signed(claims, crit=["exp"], exp=1),
    "no key id among several": lambda idp, claims: idp.signed(claims, key=FOREIGN_KEY, kid=None),
    "changed content": lambda idp, claims: _changed(idp.signed(claims)),
    "no token": lambda idp, claims: "x.y",
    "a token of 20 kB": lambda idp, claims: idp.signed(claims | {"pad": "x" * 20_000}),
    "another issuer": lambda idp, claims: idp.signed(claims | {"iss": "https://evil.example"}),
    "an issuer with a slash more": lambda idp, claims: idp.signed(claims | {"iss": claims["iss"] + "/"}),
    "another audience": lambda idp, claims: idp.signed(claims | {"aud": "another-client"}),
    "two audiences without a party": lambda idp, claims: idp.signed(claims | {"aud": [CLIENT, "other"]}),
    "another authorized party": lambda idp, claims: idp.signed(claims | {"azp": "other"}),
    "another nonce": lambda idp, claims: idp.signed(claims | {"nonce": "of another sign-in"}),
    "no nonce": lambda idp, claims: idp.signed({k: v for k, v in claims.items() if k != "nonce"}),
    "no expiry": lambda idp, claims: idp.signed({k: v for k, v in claims.items() if k != "exp"}),
    "expired": lambda idp, claims: idp.signed(claims | {"exp": int(time.time()) - 61}),
    "from the future": lambda idp, claims: idp.signed(claims | {"iat": int(time.time()) + 120}),
    "not yet valid": lambda idp, claims: idp.signed(claims | {"nbf": int(time.time()) + 120}),
    "old, but long-lived": lambda idp, claims: idp.signed(claims | {"iat": int(time.time()) - 700}),
    "times that are texts": lambda idp, claims: idp.signed(claims | {"exp": "9999999999"}),
    "an empty subject": lambda idp, claims: idp.signed(claims | {"sub": ""}),
    "a subject that is no text": lambda idp, claims: _raw(idp, claims | {"sub": 7}),
    "a subject with a line break": lambda idp, claims: idp.signed(claims | {"sub": "ada\n1"}),
}


def _changed(token: str) -> str:
    head, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    other = base64.urlsafe_b64encode(json.dumps(claims | {"sub": "eve"}).encode()).rstrip(b"=").decode()
    return f"{head}.{other}.{signature}"


def _raw(idp: IdentityProvider, claims: dict) -> str:
    """Past the library's own check of what it signs."""
    return jwt.api_jws.encode(json.dumps(claims).encode(), RSA_KEY, algorithm="RS256", headers={"kid": "r1"})


@pytest.mark.parametrize("forgery", FORGERIES)
def test_an_invalid_id_token_signs_no_user_in(client, idp, forgery):
    idp.sign = lambda claims: FORGERIES[forgery](idp, claims)
    assert_refused(client, idp, come_back(client, idp), "id_token_")


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
@pytest.mark.parametrize("keys", [[], "x", [jwk(WEAK_KEY, "r1")], [jwk(RSA_KEY, "r1", use="enc")], [7]])
def test_missing_or_weak_keys_sign_no_user_in(client, idp, keys):
    idp.keys = keys
    if keys and keys != "x" and isinstance(keys[0], dict) and keys[0]["use"] == "sig":
        idp.sign = lambda claims: idp.signed(claims, key=WEAK_KEY)
    assert_refused(client, idp, come_back(client, idp), "id_token_")


def test_two_keys_of_one_name_are_none(client, idp):
    idp.keys = [jwk(RSA_KEY, "r1"), jwk(FOREIGN_KEY, "r1")]
    assert_refused(client, idp, come_back(client, idp), "id_token_")


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"state": "made-up"}, "unknown_state"),
        ({"state": ""}, "unknown_state"),
        ({"state": None}, "unknown_state"),
        ({"iss": "https://evil.example"}, "issuer_mixed_up"),
        ({"iss": None}, "issuer_mixed_up"),
        ({"code": None}, "denied"),
        ({"code": "made-up"}, "no_id_token"),
        ({"error": "<script>alert(1)</script>", "code": None}, "denied"),
    ],
)
def test_answer_that_was_changed_on_the_way_is_refused(client, idp, changed, code):
    assert_refused(client, idp, come_back(client, idp, **changed), code)


@pytest.mark.parametrize(
    "frame",
    [
        lambda claims: (201, "application/json", json.dumps(claims).encode()),
        lambda claims: (200, "application/x-www-form-urlencoded", urlencode(claims).encode()),
        lambda claims: (200, "application/json", json.dumps(claims | {"expires_in": "soon"}).encode()),
        lambda claims: (200, "application/json", json.dumps(claims | {"token_type": "BEARER"}).encode()),
    ],
)
def test_a_token_reply_with_an_odd_frame_signs_in(client, idp, frame):
    idp.token_frame = frame
    come_back(client, idp)
    assert is_in(client)


@pytest.mark.parametrize("wrong", [{"error": "access_denied"}, {"token_type": "mac"}, {"id_token": 7}])
def test_a_token_reply_that_is_an_error_or_of_another_type_signs_no_user_in(client, idp, wrong):
    idp.token_frame = lambda claims: (200, "application/json", json.dumps(claims | wrong).encode())
    assert_refused(client, idp, come_back(client, idp), "no_id_token")


def test_answer_works_once(client, idp):
    answer = idp.authorize(client.get(START).headers["Location"])
    client.get(DONE, answer)
    client.post("/accounts/logout/")
    replayed = client.get(DONE, answer)
    assert replayed.status_code == 400
    assert not is_in(client)


def test_answer_for_another_browser_is_refused(client, idp):
    victim = Client()
    answer = idp.authorize(client.get(START).headers["Location"])
    victim.get(START)
    assert_refused(victim, idp, victim.get(DONE, answer), "unknown_state")


def test_code_of_another_sign_in_fails_by_its_verifier(client, idp):
    other = idp.authorize(Client().get(START).headers["Location"])
    assert_refused(client, idp, come_back(client, idp, code=other["code"]), "no_id_token")


def test_answer_after_ten_minutes_is_too_late(client, idp):
    answer = idp.authorize(client.get(START).headers["Location"])
    with time_machine.travel(time.time() + 601):
        assert_refused(client, idp, client.get(DONE, answer), "unknown_state")


def test_only_a_few_sign_ins_wait_in_one_browser(client, idp):
    for _ in range(8):
        client.get(START)
    assert len(client.session["single_sign_on"]) == 5
    assert client.session.get_expiry_age() <= 600
    come_back(client, idp)
    assert client.session.get_expiry_age() > 80_000


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "file:///etc/passwd"},
        {"jwks_uri": 7},
        {"token_endpoint": "http://169.254.169.254/latest/"},
    ],
)
def test_provider_that_says_odd_things_about_itself_is_not_believed(client, idp, metadata):
    idp.metadata = metadata
    answer = client.get(START)
    if answer.status_code == 302:
        answer = client.get(DONE, idp.authorize(answer.headers["Location"]))
    assert (answer.status_code, is_in(client)) == (502, False)
    assert "identity provider" in text_of(answer)
    assert "169.254" not in text_of(answer)


def test_provider_that_is_away_is_explained(client, idp):
    idp.stop()
    answer = client.get(START)
    assert answer.status_code == 502
    assert "does not answer" in text_of(answer)


def test_same_address_or_name_links_no_account(client, idp):
    """An address can be claimed, and be given to another person."""
    make_user(Role.ADMIN, username="ada")
    idp.claims |= {"email": "ada@example.com", "email_verified": True}
    answer = come_back(client, idp)
    assert answer.status_code == 403
    assert "There is an account “ada” already" in text_of(answer)
    assert not is_in(client)
    assert not Identity.objects.exists()


def test_same_subject_at_another_issuer_is_another_user(client, idp):
    owner = make_user(Role.ADMIN, username="boss")
    Identity.objects.create(user=owner, issuer="https://other.example", subject="ada-1")
    come_back(client, idp)
    assert client.get("/users/new/").status_code == 403  # a new viewer, not the boss


def test_owner_links_an_account_with_its_password(client, idp):
    user = make_user(Role.DESIGNER, username="ada")
    client.force_login(user)
    assert client.post(LINK, {"old": "guess"}).context["address"] == ""
    address = client.post(LINK, {"old": PASSWORD}).context["address"]
    assert client.get(DONE, idp.authorize(address)).headers["Location"] == "/accounts/password/"
    fresh = Client()
    come_back(fresh, idp)
    assert fresh.get("/accounts/password/").context["user"] == user


def test_link_begun_by_one_person_is_not_finished_by_another(client, idp):
    victim, attacker = make_user(Role.ADMIN), make_user(Role.VIEWER)
    client.force_login(attacker)
    address = client.post(LINK, {"old": PASSWORD}).context["address"]
    pending = dict(client.session["single_sign_on"])
    client.force_login(victim)
    mixed = client.session
    mixed["single_sign_on"] = pending
    mixed.save()
    answer = client.get(DONE, idp.authorize(address))
    assert (answer.status_code, Identity.objects.count()) == (403, 0)


def test_identity_is_linked_to_one_account(client, idp):
    owner = make_user(Role.VIEWER, username="owner")
    Identity.objects.create(user=owner, issuer=idp.issuer, subject="ada-1")
    client.force_login(make_user(Role.VIEWER))
    address = client.post(LINK, {"old": PASSWORD}).context["address"]
    assert client.get(DONE, idp.authorize(address)).status_code == 409
    assert Identity.objects.get().user == owner


def test_deactivated_person_stays_out(client, idp):
    user = make_user(Role.VIEWER, is_active=False, username="left")
    Identity.objects.create(user=user, issuer=idp.issuer, subject="ada-1")
    answer = come_back(client, idp)
    assert (answer.status_code, is_in(client)) == (403, False)


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["staff"], "viewer"),
        (["pegboard designers", "staff"], "designer"),
        (["staff", "pegboard-admins", "pegboard designers"], "admin"),
        ("pegboard-admins", "admin"),
        (["Pegboard-Admins"], None),
        (["admin"], None),
        ([["pegboard-admins"], {"pegboard-admins": 1}, 7, None], None),
        ({"pegboard-admins": True}, None),
        ([], None),
        (None, None),
    ],
)
def test_role_comes_from_the_groups(client, mapped, groups, role):
    make_user(Role.ADMIN)
    mapped.claims["groups"] = groups
    answer = come_back(client, mapped)
    if role is None:
        assert_refused(client, mapped, answer, "no_role")
    else:
        assert User.objects.get(username="ada").role == role


def test_role_is_given_anew_at_each_sign_in_and_ends_old_sessions(client, mapped):
    make_user(Role.ADMIN)
    mapped.claims["groups"] = ["pegboard-admins"]
    come_back(client, mapped)
    assert client.get("/users/new/").status_code == 200
    mapped.claims["groups"] = ["staff"]
    later = Client()
    come_back(later, mapped)
    assert later.get("/users/new/").status_code == 403
    assert not is_in(client)
    change = AuditEntry.objects.get(action="change person")
    assert (change.after, change.why) == ({"role": "viewer"}, "single sign-on")


def test_last_administrator_keeps_the_role_and_it_is_written_down(client, mapped, caplog):
    mapped.claims["groups"] = ["pegboard-admins"]
    come_back(client, mapped)
    mapped.claims["groups"] = ["staff"]
    come_back(client, mapped)
    assert User.objects.get().role == Role.ADMIN
    assert "there is no other administrator" in AuditEntry.objects.get(action="keep role").why
    assert "last administrator" in caplog.text


def test_without_a_claim_for_roles_they_are_given_here(client, idp):
    come_back(client, idp)
    User.objects.update(role=Role.DESIGNER)
    come_back(client, idp)
    assert User.objects.get().role == Role.DESIGNER


@pytest.mark.parametrize(
    ("email", "is_verified", "comes_in"),
    [
        ("ada@example.com", True, True),
        ("ada@EXAMPLE.com", True, True),
        ("ada@example.com", False, False),
        ("ada@example.com", "true", False),
        ("ada@example.com.evil.example", True, False),
        ("ada@sub.example.com", True, False),
        ("example.com", True, False),
        (None, True, False),
    ],
)
def test_only_verified_addresses_of_the_named_domains_come_in(
    client, idp, settings, email, is_verified, comes_in
):
    settings.OIDC |= {"domains": ["example.com"]}
    idp.claims |= {"email": email, "email_verified": is_verified}
    come_back(client, idp)
    assert is_in(client) == comes_in


def test_local_sign_in_can_be_switched_off(client, idp, settings):
    settings.LOCAL_SIGN_IN = False
    make_user(username="bob")
    page = text_of(client.get("/accounts/login/"))
    assert "Sign in with Example ID" in page
    assert "Password" not in page
    answer = client.post("/accounts/login/", {"username": "bob", "password": PASSWORD})
    assert (answer.status_code, is_in(client)) == (403, False)
    come_back(client, idp)
    assert is_in(client)


def test_without_a_provider_there_is_nothing(client):
    assert [client.get(address).status_code for address in (START, DONE)] == [404, 404]
    assert "Sign in with" not in text_of(client.get("/accounts/login/"))


def test_signing_out_offers_to_do_so_there_too(client, idp):
    come_back(client, idp)
    answer = client.post("/accounts/logout/")
    assert answer.context["address"].startswith(f"{idp.issuer}/logout?client_id=pegboard&post_logout")
    assert not is_in(client)
    client.force_login(make_user())
    assert client.post("/accounts/logout/").headers["Location"] == "/accounts/login/"


def test_secret_is_in_no_text(idp):
    assert SECRET not in repr(provider.configured_provider())


def test_command_links_takes_the_link_away_and_says_so(client, idp, capsys):
    user = make_user(Role.VIEWER, username="ada")
    call_command("link_identity", "ada", "ada-1")
    assert Identity.objects.get().user == user
    assert "ada can sign in as ada-1" in capsys.readouterr().out
    come_back(client, idp)
    assert is_in(client)
    call_command("link_identity", "ada", "ada-1", "--remove")
    assert not is_in(client)
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["link identity", "unlink identity"]
    with pytest.raises(CommandError, match="no such identity"):
        call_command("link_identity", "ada", "ada-1", "--remove")


def test_command_says_what_is_missing(idp, settings):
    with pytest.raises(CommandError, match="No user signs in"):
        call_command("link_identity", "nobody", "x")
    settings.OIDC = None
    with pytest.raises(CommandError, match="not set up"):
        call_command("link_identity", "ada", "x")
