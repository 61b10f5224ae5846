import pytest

from people import api_keys
from people.models import ApiKey, Role
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def test_token_is_shown_once_and_never_stored_by_the_browser(client):
    client.force_login(make_user(Role.VIEWER))
    answer = client.post("/keys/new/", {"name": "Runtime", "scope": "runtime", "days": "30"})
    plain = answer.context["plain"]
    assert ApiKey.objects.get().digest == ApiKey.digest_of(plain)
    assert plain in answer.content.decode()
    assert "no-store" in answer.headers["Cache-Control"]
    assert plain not in client.get("/keys/").content.decode()


def test_form_keeps_what_was_typed_and_says_what_is_missing(client):
    client.force_login(make_user(Role.VIEWER))
    answer = client.post("/keys/new/", {"name": "Runtime", "scope": "godmode", "days": "30"})
    assert answer.context["form"].errors["scope"]
    assert 'value="Runtime"' in answer.content.decode()
    assert not ApiKey.objects.exists()


def test_revoked_key_stays_in_the_list(client):
    user = make_user(Role.VIEWER)
    key, _ = api_keys.issue(user, actor=user, name="Old runtime", scopes=["runtime"])
    client.force_login(user)
    page = client.post(f"/keys/{key.pk}/revoke/", follow=True).content.decode()
    assert "Old runtime is revoked" in page
    assert "Revoked" in page


def test_list_holds_own_keys_and_for_an_administrator_all(client):
    owner, other, admin = make_user(Role.VIEWER), make_user(Role.DESIGNER), make_user(Role.ADMIN)
    key, _ = api_keys.issue(owner, actor=owner, name="Mine", scopes=["read"])
    rows = []
    for user in (owner, other, admin):
        client.force_login(user)
        rows.append(client.get("/keys/").context["page"].rows)
    assert rows == [[key], [], [key]]
    client.force_login(other)
    assert client.post(f"/keys/{key.pk}/revoke/").status_code == 404


def test_how_many_calls_a_key_may_have_under_way_is_chosen_and_changed(client):
    user = make_user(Role.VIEWER)
    client.force_login(user)
    form = {"name": "Runtime", "scope": "runtime", "days": "30", "calls_at_once": "25"}
    client.post("/keys/new/", form)
    key = ApiKey.objects.get()
    assert key.calls_at_once == 25
    assert 'value="25"' in client.get("/keys/").content.decode()
    client.post(f"/keys/{key.pk}/limit/", {"calls_at_once": "40"})
    for wrong in ("0", "1001", "many", ""):
        response = client.post(f"/keys/{key.pk}/limit/", {"calls_at_once": wrong}, follow=True)
        assert "Choose a number from 1 to 1000." in response.content.decode()
    key.refresh_from_db()
    assert key.calls_at_once == 40
    client.force_login(make_user(Role.DESIGNER))
    assert client.post(f"/keys/{key.pk}/limit/", {"calls_at_once": "1"}).status_code == 404
