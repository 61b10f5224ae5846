from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from core.errors import DomainError
from people import users
from people.models import AuditEntry, Role, User
from tests.factories import make_user

NEW = {"username": "eve", "password": "a wholly new sentence", "name": "Eve", "role": "designer"}


@pytest.mark.django_db
def test_administrator_adds_a_person_who_can_sign_in(program, client):
    answer = program(make_user(Role.ADMIN)).post("/api/v1/users/", NEW)
    assert answer.status_code == 201
    assert "password" not in answer.json()
    assert client.login(username="eve", password=NEW["password"])


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"username": "has space"}, "username"),
        ({"username": "x" * 151}, "username"),
        ({"role": "owner"}, "role"),
        ({"password": "short"}, "password"),
        ({"password": "password12"}, "password"),
        ({"password": "evelynevelyn", "username": "evelynevelyn"}, "password"),
    ],
)
def test_impossible_person_is_refused_beside_the_field(program, change, field):
    answer = program(make_user(Role.ADMIN)).post("/api/v1/users/", {**NEW, **change})
    assert answer.status_code == 400
    assert field in answer.json()["fields"]


@pytest.mark.django_db
def test_name_that_differs_by_case_alone_is_taken(program):
    make_user(username="Eve")
    answer = program(make_user(Role.ADMIN)).post("/api/v1/users/", NEW)
    assert "already" in answer.json()["fields"]["username"]


@pytest.mark.django_db
def test_audit_holds_what_differs_and_never_a_password(program):
    admin, user = make_user(Role.ADMIN), make_user(Role.VIEWER)
    body = {"role": "designer", "password": "a wholly new sentence"}
    assert program(admin).patch(f"/api/v1/users/{user.pk}/", body).status_code == 200
    changed, password = AuditEntry.objects.filter(kind="user").order_by("id")
    assert (changed.before, changed.after) == ({"role": "viewer"}, {"role": "designer"})
    assert (password.action, password.before, password.after) == ("set password", None, None)


@pytest.mark.django_db
def test_refused_password_takes_the_new_role_back(program):
    user = make_user(Role.VIEWER)
    answer = program(make_user(Role.ADMIN)).patch(
        f"/api/v1/users/{user.pk}/", {"role": "admin", "password": "short"}
    )
    user.refresh_from_db()
    assert (answer.status_code, user.role) == (400, Role.VIEWER)


@pytest.mark.django_db
def test_change_that_changes_nothing_is_not_written_down():
    user = make_user(Role.VIEWER)
    users.update_user(user, actor=None, role="viewer")
    assert not AuditEntry.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("change", [{"role": "designer"}, {"is_active": False}])
def test_last_administrator_stays(program, change):
    admin = make_user(Role.ADMIN)
    make_user(Role.ADMIN, is_active=False)
    answer = program(admin).patch(f"/api/v1/users/{admin.pk}/", change)
    assert (answer.status_code, answer.json()["code"]) == (409, "last_administrator")
    admin.refresh_from_db()
    assert admin.can_administer


@pytest.mark.django_db
def test_one_of_two_administrators_may_go(program):
    admin = make_user(Role.ADMIN)
    make_user(Role.ADMIN)
    assert program(admin).patch(f"/api/v1/users/{admin.pk}/", {"role": "viewer"}).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_two_administrators_cannot_demote_each_other_at_once():
    both = [make_user(Role.ADMIN), make_user(Role.ADMIN)]
    together = Barrier(2)

    def demote(user: User) -> str:
        together.wait()
        try:
            users.update_user(User.objects.get(pk=user.pk), actor=None, role="viewer")
        except DomainError as error:
            return error.code
        finally:
            connection.close()
        return "done"

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(demote, both)) == ["done", "last_administrator"]
    assert User.objects.filter(role=Role.ADMIN).count() == 1


@pytest.mark.django_db
def test_pages_add_change_and_let_go(client):
    client.force_login(make_user(Role.ADMIN))
    client.post("/users/new/", NEW)
    eve = User.objects.get(username="eve")
    client.post(f"/users/{eve.pk}/", {"name": "Eve Stone", "role": "viewer"})
    client.post(f"/users/{eve.pk}/password/", {"password": "yet another sentence"})
    eve.refresh_from_db()
    assert (eve.name, eve.role, eve.is_active) == ("Eve Stone", "viewer", False)
    assert eve.check_password("yet another sentence")


@pytest.mark.django_db
def test_page_explains_why_the_last_administrator_stays(client):
    admin = make_user(Role.ADMIN, name="Ada")
    client.force_login(admin)
    answer = client.post(f"/users/{admin.pk}/", {"name": "Ada", "role": "viewer", "is_active": "on"})
    assert "at least one administrator" in answer.content.decode()


@pytest.mark.django_db
def test_viewer_sees_who_could_give_a_role(client):
    make_user(Role.ADMIN, name="Ada Admin")
    client.force_login(make_user(Role.VIEWER))
    page = client.get("/users/").content.decode()
    assert "Ada Admin" in page
    assert "Administrators give roles." in page
    assert "/users/new/" not in page


@pytest.mark.django_db
def test_changing_ones_own_password_as_administrator_keeps_the_session(client):
    admin = make_user(Role.ADMIN)
    client.force_login(admin)
    client.post(f"/users/{admin.pk}/password/", {"password": "yet another sentence"})
    assert client.get("/keys/").status_code == 200
