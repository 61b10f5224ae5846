import pytest

from core.errors import DomainError
from core.pagination import Keyset
from people.models import Role, User
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def walk(order: str, limit: int, link: str = "next", cursor: str | None = None) -> list[list[User]]:
    pages = []
    while True:
        page = Keyset(User.objects.all(), order).page(cursor, limit)
        pages.append(page.rows)
        cursor = getattr(page, link)
        if cursor is None:
            return pages


@pytest.mark.parametrize("order", ["name", "-name", "id", "-id", "-date_joined"])
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
def test_pages_hold_every_row_once_and_in_order(order, limit):
    for name in ["b", "a", "b", "", "b", "c", "a"]:
        make_user(name=name)
    rows = [row for page in walk(order, limit) for row in page]
    sign = "-" if order.startswith("-") else ""
    assert rows == list(User.objects.order_by(order, f"{sign}pk"))


def test_going_back_shows_the_same_pages():
    for name in ["b", "a", "b", "d", "c"]:
        make_user(name=name)
    forth = walk("name", 2)
    last = Keyset(User.objects.all(), "name")
    cursor = last.page(last.page(None, 2).next, 2).next
    back = walk("name", 2, "previous", cursor)
    assert back == forth[::-1]


def test_first_page_has_nothing_before_it_and_the_last_nothing_after():
    make_user()
    page = Keyset(User.objects.all(), "id").page(None, 50)
    assert (page.previous, page.next) == (None, None)


def test_row_that_goes_between_two_pages_shifts_nothing():
    users = [make_user(name=name) for name in "abcd"]
    first = Keyset(User.objects.all(), "name").page(None, 2)
    users[0].delete()
    assert Keyset(User.objects.all(), "name").page(first.next, 2).rows == users[2:]


@pytest.mark.parametrize("order", ["name", "-name", "pk", "-pk"])
def test_page_with_a_row_is_the_first_one_or_begins_with_it(order):
    for name in ("a", "b", "b", "c", "d"):
        make_user(name=name)
    keyset = Keyset(User.objects.filter(name__in="abcd"), order)
    rows = keyset.page(None, 9).rows
    for number, row in enumerate(rows):
        page = keyset.page_with(row, 2)
        assert page.rows == (rows[:2] if number < 2 else rows[number : number + 2])
        assert bool(page.previous) is (number >= 2)


def test_cursor_fits_only_the_list_and_order_it_was_made_for():
    for _ in range(3):
        make_user()
    cursor = Keyset(User.objects.all(), "name").page(None, 1).next
    with pytest.raises(DomainError) as refused:
        Keyset(User.objects.all(), "-name").page(cursor, 1)
    assert refused.value.code == "invalid_cursor"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "invalid_limit"),
        ("limit=201", "invalid_limit"),
        ("limit=-1", "invalid_limit"),
        ("limit=ten", "invalid_limit"),
        ("limit=", "invalid_limit"),
        ("limit=٣", "invalid_limit"),
        ("limit=99999999999999999999", "invalid_limit"),
        ("cursor=x", "invalid_cursor"),
        ("cursor=x:y:z", "invalid_cursor"),
    ],
)
def test_rest_refuses_odd_pages(program, query, code):
    answer = program(make_user()).get(f"/api/v1/users/?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_rest_links_keep_the_other_parts_of_the_address(program):
    client = program(make_user())
    for number in range(3):
        make_user(Role.VIEWER, username=f"user{number}")
    first = client.get("/api/v1/users/?limit=2").json()
    second = client.get(first["next"]).json()
    assert first["next"].startswith("http://testserver/api/v1/users/?")
    assert "limit=2" in second["previous"]
    assert client.get(second["previous"]).json()["results"] == first["results"]


def test_page_that_is_not_known_any_more_is_explained(client):
    client.force_login(make_user())
    answer = client.get("/keys/?cursor=old")
    assert answer.status_code == 400
    assert "Start from the first page" in answer.content.decode()
