"""A mock that any agent may use, set up on a page as a browser without a script sends it."""

import pytest

from catalog.models import Activity
from execution.activities import operations
from execution.activities.mocks.situations import KINDS
from people.models import Role
from tests.catalog.views.test_activities import NEW, calls, mail, press, user_of
from tests.catalog.views.test_definitions import Fields
from tests.factories import make_parameter, make_signature, make_tool
from tests.pages import signed_in, text_of

__all__ = ["mail"]
pytestmark = pytest.mark.django_db
SENT = {"accepted": True, "number": "N-1"}


def test_a_designer_sets_up_a_mock_that_any_agent_may_use(mail):
    post, _, _ = mail
    client = signed_in(Role.DESIGNER)
    kinds = client.get(f"/activities/new/?interface={calls(post)}")
    assert f"kind=mock&amp;interface={calls(post)}" in kinds.content.decode()
    url = f"{NEW}mock&interface={calls(post)}"

    page = press(client, url, client.get(url), act="example", name="Post office")
    begins = Fields(page).sent
    assert begins["examples-0-outputs-0"] in ("true", "false")
    assert begins["examples-0-outputs-1"]
    page = press(client, url, page, act="situation-unavailable")
    page = press(client, url, page, act="situation-slow")
    page = press(client, url, page, act="drop-situations-1")
    answer = press(
        client,
        url,
        page,
        **{
            "seed": "7",
            "examples-0-outputs-0": "true",
            "examples-0-outputs-1": "N-1",
            "situations-0-switch": "when",
            "situations-0-retry_after": "5",
            "situations-0-when-0": "*@slow.example",
        },
    )

    assert answer.status_code == 302
    activity = Activity.objects.get(name="Post office")
    assert operations.current(activity).config == {
        "seed": 7,
        "examples": [{"outputs": SENT}],
        "situations": [{"name": "unavailable", "retry_after": 5, "when": {"to": "*@slow.example"}}],
    }
    page_text = text_of(client.get(f"/activities/{activity.pk}/"))
    for words in ("Every call", "N-1", KINDS["unavailable"].label, "Change"):
        assert words in page_text


def test_a_mock_is_changed_and_what_says_the_same_is_no_new_version(mail):
    post, _, _ = mail
    client = signed_in(Role.DESIGNER)
    situations = [
        {"name": "slow", "switch": True},
        {"name": "interrupt", "when": {"to": "*"}, "message": "Sure?"},
    ]
    config = {"examples": [{"arguments": {"to": "a@b.c"}, "outputs": SENT}], "situations": situations}
    activity = operations.create(
        actor=user_of(client), name="Post", kind="mock", config=config, interface=post.current
    )
    before, url = operations.current(activity).config, f"/activities/{activity.pk}/change/"

    press(client, url, client.get(url))
    assert activity.versions.count() == 1
    press(client, url, client.get(url), act="save", seed="3")

    activity.refresh_from_db()
    assert operations.current(activity).number == 2
    assert operations.current(activity).config == before | {"seed": 3}


@pytest.mark.parametrize(
    ("typed", "expected_text"),
    [
        ({"seed": "one"}, "Enter a whole number from 0 to"),
        ({"examples-0-outputs-0": "perhaps"}, "accepted must be true or false"),
        ({"situations-0-retry_after": "soon"}, "Expected int, got str"),
        ({"situations-0-retry_after": "-5"}, "Expected int >= 0"),
        ({"examples-0-arguments": '{"town": "Oslo"}'}, "“town” is not an input of this tool"),
        ({"examples-0-outputs": '{"accepted": tru'}, "This is not a JSON object"),
        ({"examples-0-outputs": "[]"}, "This is not a JSON object"),
    ],
)
def test_what_no_mock_can_be_told_is_said_where_it_was_typed_and_stays(mail, typed, expected_text):
    post, _, _ = mail
    client = signed_in(Role.DESIGNER)
    url = f"{NEW}mock&interface={calls(post)}"
    page = press(client, url, client.get(url), act="example", name="Post office")
    page = press(client, url, page, act="situation-unavailable")

    answer = press(client, url, page, **typed)

    assert expected_text in text_of(answer)
    assert not Activity.objects.exists()
    for name, value in typed.items():
        assert "".join(Fields(answer).sent[name].split()) == "".join(value.split())


def test_a_mock_that_cannot_answer_is_refused_on_the_page():
    schema = {"type": "string", "minLength": 5, "maxLength": 4}
    signature = make_signature("post", outputs=(make_parameter("number", type="json", schema=schema),))
    client = signed_in(Role.DESIGNER)
    url = f"{NEW}mock&interface={calls(make_tool(signature))}"

    page = press(client, url, client.get(url), name="Nobody")

    assert "A text would have to be longer than it may be" in text_of(page)
    assert not Activity.objects.exists()
