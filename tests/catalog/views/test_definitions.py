"""The page on which a tool is defined, as a browser without a script sends it."""

import html
import json
from html.parser import HTMLParser

import pytest
from django.urls import reverse

from catalog.models import Tool
from catalog.tools import definitions
from people.models import Role
from tests.factories import make_tool
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
NEW = "/tools/define/"


class Fields(HTMLParser):
    """The fields that a browser submits for the one large form of a page."""

    def __init__(self, response):
        super().__init__()
        self.sent, self.inside, self.select, self.area = {}, False, None, None
        self.feed(response.content.decode())

    def handle_starttag(self, tag, attributes):
        members = dict(attributes)
        if tag == "form":
            self.inside = "definition" in members.get("class", "")
        if not self.inside:
            return
        name = members.get("name")
        if tag == "input" and (members.get("type") != "checkbox" or "checked" in members):
            self.sent[name] = members.get("value", "on" if members.get("type") == "checkbox" else "")
        elif tag == "select":
            self.select = name
        elif tag == "option" and "selected" in members:
            self.sent[self.select] = members["value"]
        elif tag == "textarea":
            self.area = name
            self.sent[name] = ""

    def handle_endtag(self, tag):
        if tag == "textarea":
            # A browser drops the first line break, and ends lines in its own way.
            self.sent[self.area] = self.sent[self.area].removeprefix("\n").replace("\n", "\r\n")
            self.area = None

    def handle_data(self, data):
        if self.area:
            self.sent[self.area] += data


def press(client, url, response, act, **typed):
    return client.post(
        url, Fields(response).sent | {name.replace("__", "-"): v for name, v in typed.items()} | {"act": act}
    )


@pytest.fixture
def client():
    return signed_in(Role.DESIGNER)


ODD = {
    "type": "object",
    "description": "Books a room\nfor a day.",
    "properties": {
        "_tool": {"type": "string", "const": "book_room", "description": "Which tool"},
        "_activity": {"type": "string", "const": ""},
        "room": {"type": "string", "pattern": "^R[0-9]+$", "description": "Which room"},
        "guests": {"type": "array", "items": {"$ref": "#/$defs/guest"}},
        "floor": {"type": "integer", "minimum": 1, "default": 2},
        "_output": {
            "type": "object",
            "properties": {
                "booked": {"type": "boolean"},
                "bill": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            },
        },
    },
    "required": ["_tool", "room"],
    "$defs": {"guest": {"type": "object", "properties": {"name": {"type": "string"}}}},
    "additionalProperties": False,
}


def test_a_tool_is_defined_in_rows(client):
    page = client.get(NEW)
    more = press(
        client, NEW, page, "more-inputs", name="send_mail", inputs__0__name="to", inputs__0__is_required="on"
    )
    assert "field-error" not in more.content.decode()
    assert "inputs-4-name" in more.content.decode()
    done = press(
        client,
        NEW,
        more,
        "save",
        title="Send a mail",
        description="Sends a mail.",
        inputs__0__description="Who gets it",
        inputs__3__name="urgency",
        inputs__3__kind="choice",
        inputs__3__values="low\r\nhigh\r\n",
        inputs__3__default="low",
        output__0__name="sent",
        output__0__kind="flag",
    )
    tool = Tool.objects.get(name="send_mail")
    assert done.headers["Location"] == f"/tools/{tool.pk}/"
    parts = definitions.parts_of(tool)
    assert parts.inputs == {
        "type": "object",
        "properties": {
            "to": {"type": "string", "description": "Who gets it"},
            "urgency": {"type": "string", "enum": ["low", "high"], "default": "low"},
        },
        "required": ["to"],
    }
    assert parts.output == {"type": "object", "properties": {"sent": {"type": "boolean"}}}
    assert (parts.title, parts.activity) == ("Send a mail", None)


def test_what_is_wrong_is_said_where_it_was_typed(client):
    page = client.get(NEW)
    reply = press(
        client,
        NEW,
        page,
        "save",
        name="two words",
        description="Does it.",
        inputs__0__name="_to",
        inputs__0__kind="whole",
        inputs__0__default="many",
        inputs__1__description="Nameless",
        output__0__name="a",
        output__0__kind="choice",
        output__1__name="a",
    )
    page_text = text_of(reply)
    for sentence in (
        "belongs to the Tool System",
        "Enter a whole number, such as 10.",
        "Enter a name, or clear the whole row.",
        "List the values, one on a line.",
    ):
        assert sentence in page_text
    mended = press(client, NEW, page, "save", name="two words", description="Does it.", output__0__name="a")
    assert "A name begins with a letter" in text_of(mended)
    assert not Tool.objects.exists()


def test_json_and_rows_show_the_same_and_lose_nothing(client):
    page = client.get(NEW)
    as_json = press(client, NEW, page, "json")
    assert json.loads(Fields(as_json).sent["document"])["properties"]["_tool"]["const"] == ""
    as_rows = press(client, NEW, as_json, "rows", document=json.dumps(ODD))
    fields_sent = Fields(as_rows).sent
    assert [
        fields_sent[f"inputs-{number}-{name}"] for number, name in ((0, "name"), (1, "kind"), (2, "default"))
    ] == [*("room", "other", "2")]
    assert 'pattern: "^R[0-9]+$"' in text_of(as_rows)
    again = press(client, NEW, as_rows, "json")
    assert json.loads(Fields(again).sent["document"]) == ODD
    assert press(client, NEW, as_rows, "save").status_code == 302
    tool = Tool.objects.get(name="book_room")
    assert json.loads(tool.current.raw) == ODD

    url = f"/tools/{tool.pk}/define/"
    assert press(client, url, client.get(url), "save").status_code == 302
    assert Tool.objects.get(pk=tool.pk).version_count == 1
    changed = press(
        client, url, client.get(url), "save", inputs__2__name="storey", inputs__0__description="Its number"
    )
    assert changed.status_code == 302
    tool = Tool.objects.select_related("current").get(pk=tool.pk)
    properties = json.loads(tool.current.raw)["properties"]
    assert (tool.version_count, properties["storey"]) == (2, ODD["properties"]["floor"])
    assert properties["room"] == ODD["properties"]["room"] | {"description": "Its number"}
    assert properties["guests"] == ODD["properties"]["guests"]


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("{", "This"),
        ("[]", "in braces"),
        ('{"type": "object", "properties": {"_tool": {"const": "a"}}}', "“_output” is missing"),
        (
            '{"type": "object", "description": "A", "properties": {"_tool": {"const": "a"},'
            ' "b": {"type": "c"}, "_output": {"type": "string"}}}',
            "“inputs.properties.b.type” must be one of",
        ),
    ],
)
def test_json_that_is_no_definition_says_why(client, text, expected_text):
    page = press(client, NEW, client.get(f"{NEW}?json"), "save", document=text)
    assert expected_text in text_of(page)
    assert text in Fields(page).sent["document"]
    assert not Tool.objects.exists()


def test_a_late_edit_is_told(client):
    page = client.get(f"{NEW}?json")
    press(client, NEW, page, "save", document=json.dumps(ODD))
    tool = Tool.objects.get()
    url = f"/tools/{tool.pk}/define/"
    own_page, other_page = client.get(url), client.get(url)
    press(signed_in(Role.DESIGNER), url, other_page, "save", description="Theirs.")
    late = press(client, url, own_page, "save", title="Mine")
    assert late.status_code == 409
    assert "has changed this since you opened it" in text_of(late)
    assert Fields(late).sent["description"] == "Theirs."
    assert press(client, url, late, "save").status_code == 302
    assert definitions.parts_of(Tool.objects.select_related("current").get()).title == "Mine"


def test_the_page_of_a_definition_says_that_it_is_defined_here(client):
    press(client, NEW, client.get(f"{NEW}?json"), "save", document=json.dumps(ODD))
    tool = Tool.objects.get()
    page = client.get(f"/tools/{tool.pk}/")
    page_text = text_of(page)
    assert "Defined here" in page_text
    assert "Implementation: simulated by the model." in page_text
    assert "defined it" in page_text
    assert f'href="/tools/{tool.pk}/define/"' in page.content.decode()
    assert "/vendors/defined-here" not in page.content.decode()
    for tab in ("try", "tuning", "versions", "usage", "findings", "raw"):
        assert client.get(reverse(f"tool-{tab}", args=[tool.pk])).status_code == 200
    viewer = signed_in(Role.VIEWER)
    assert f'href="/tools/{tool.pk}/define/"' not in viewer.get(f"/tools/{tool.pk}/").content.decode()
    assert "Define a tool" not in text_of(viewer.get("/tools/"))
    assert 'href="/tools/define/"' in client.get("/tools/").content.decode()

    client.post(f"/tools/{tool.pk}/withdraw/")
    assert "This tool was withdrawn" in text_of(client.get(f"/tools/{tool.pk}/"))
    assert Tool.objects.get().status == "withdrawn"
    client.post(f"/tools/{tool.pk}/restore/")
    assert Tool.objects.get().status == "active"
    assert client.get(f"/tools/{make_tool().pk}/define/").status_code == 404


IMPORT = "/tools/define/import/"
GOOD = """{"name": "one", "description": "Does it.",
  "inputs": {"type": "object"}, "output": {"type": "string"}}"""
BAD = """{"name": "two words", "description": "Does it.", "inputs": {"type": "object"}, "output": {}}"""


def paste(client, text):
    return client.post(IMPORT, {"text": text.replace("\n", "\r\n")})


def test_several_are_pasted_as_json(client):
    assert f'href="{IMPORT}"' in client.get(NEW).content.decode()
    done = paste(client, f"[{GOOD},\n{GOOD.replace('one', 'two')}]")
    assert (done.status_code, done.headers["Location"]) == (302, "/tools/?protocol=definition")
    assert sorted(tool.name for tool in Tool.objects.all()) == ["one", "two"]
    assert "2 tools are defined." in text_of(client.get("/tools/"))


@pytest.mark.parametrize(
    "template",
    [
        "\n[\n%s,\n%s]",
        '{"before": [{"tools": 1}],\n"tools": [\n%s,\n%s]}',
    ],
)
def test_faults_of_several_are_told_by_tool_and_line(client, template):
    text = template % (GOOD, BAD)
    page = paste(client, text)
    page_text = text_of(page)
    assert "No tool was defined: 2 things to correct" in page_text
    assert "Tool 2, two words, from line 5, name: A name begins with a letter" in page_text
    assert "Tool 2, two words, from line 5, output: Describe the output" in page_text
    assert html.escape(BAD) in page.content.decode()
    assert not Tool.objects.exists()


def test_a_schema_of_calls_is_pasted_and_its_faults_are_told(client):
    odd = json.dumps(ODD)
    text = f'{{"calls": {{"type": "array", "items": {{"anyOf": [\n{odd},\n\n{{"type": "object"}}]}}}}}}'
    page_text = text_of(paste(client, text))
    assert "Tool 2, from line 4: A tool must be a JSON Schema" in page_text
    alone = f'{{"calls": {{"items":\n{odd}}}}}'
    assert paste(client, alone.replace("book_room", "two words")).status_code == 200
    assert paste(client, alone).status_code == 302


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("", "Paste the tools first."),
        ("[\n{]", "This is not JSON"),
        ("[\n{]", "in line 2"),
        ("5", "Enter the tools as a JSON array"),
        ("[]", "Enter at least one tool."),
        (GOOD, "Enter the tools as a JSON array"),
        (f"[{', '.join([GOOD] * 201)}]", "There are 201 tools. The limit is 200."),
        (f'["{"x" * 950_000}"]', "950,004 bytes. The limit is 900,000."),
    ],
    ids=["nothing", "broken", "line", "number", "empty", "one", "too many", "too large"],
)
def test_a_text_that_is_no_list_of_tools_says_why(client, text, expected_text):
    page = paste(client, text)
    assert expected_text in text_of(page)
    assert html.escape(text[:60].partition("\n")[0]) in page.content.decode()
    assert not Tool.objects.exists()


def test_names_that_are_taken_are_told_where_they_were_pasted(client):
    paste(client, f"[{GOOD}]")
    page_text = text_of(paste(client, f"[\n{GOOD}]"))
    assert "Tool 1, one, from line 2, name: There is a definition “one” already." in page_text
