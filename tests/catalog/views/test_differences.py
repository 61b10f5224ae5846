"""The display of a difference, on every page that compares two versions."""

import pytest

from catalog.rules import diff
from catalog.templatetags.differences import EFFECTS, verdict
from protocols.signature import Annotations, Requirements
from tests.factories import make_parameter, make_signature, make_tool, make_user, make_version
from tests.pages import text_of

ONE = make_signature("forecast", outputs=(make_parameter("answer"),))


def other(**fields):
    return make_signature("forecast", **({"outputs": ONE.outputs} | fields))


PATTERNED = [(make_parameter(schema={"type": "string", "pattern": pattern}),) for pattern in ("^a", "^b")]


@pytest.mark.parametrize(
    ("new", "word", "colour"),
    [
        (ONE, "No changes", "idle"),
        (other(rest={"icons": []}), "No effect", "idle"),
        (other(inputs=(*ONE.inputs, make_parameter("day", required=False))), "Safe", "ok"),
        (other(description="Other words."), "Read the changes", "warn"),
        (other(annotations=Annotations(destructive=True)), "More risk", "warn"),
        (other(requirements=Requirements(scopes=("read",))), "Needs more rights", "bad"),
        (other(inputs=PATTERNED[1]), "Breaking for agents", "bad"),
        (other(inputs=()), "Breaking for agents", "bad"),
        (other(outputs=()), "Outputs may be missing", "bad"),
        (other(inputs=(), outputs=()), "Breaking for agents", "bad"),
    ],
)
def test_all_changes_together_have_one_verdict(new, word, colour):
    shown_verdict = verdict(diff.compare(ONE, new))
    assert shown_verdict == f'<span class="status is-{colour}">{word}</span>'


@pytest.mark.django_db
def test_what_cannot_be_decided_asks_to_compare(client):
    client.force_login(make_user("designer"))
    tool = make_tool(other(inputs=PATTERNED[0]))
    make_version(tool, other(inputs=PATTERNED[1]))
    page = client.get(f"/tools/{tool.pk}/versions/?from=1&to=2")
    assert "Compare first" in text_of(page)
    assert "more risk" not in text_of(page)


def test_every_effect_has_words():
    assert set(EFFECTS) == set(diff.EFFECTS)


@pytest.mark.django_db
def test_a_page_says_in_words_what_each_change_does(client):
    client.force_login(make_user("designer"))
    tool = make_tool(ONE)
    make_version(tool, other(inputs=(), outputs=(), annotations=Annotations(destructive=True)))
    page_text = text_of(client.get(f"/tools/{tool.pk}/versions/?from=1&to=2"))
    for words in ("Breaking for agents", "breaking", "outputs may be missing", "more risk"):
        assert words in page_text, words


@pytest.mark.django_db
def test_the_api_says_what_each_change_does(client):
    client.force_login(make_user("viewer"))
    tool = make_tool(ONE)
    make_version(tool, other(outputs=()))
    reply = client.get(f"/api/v1/tools/{tool.pk}/diff/?from=1&to=2").json()
    assert [(change["effect"], change["class"]) for change in reply["changes"]] == [
        ("breaks_readers", "breaking")
    ]
