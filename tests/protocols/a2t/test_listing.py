import hashlib

import pytest

from core.outbound.errors import ProtocolViolationError, RefusedError
from protocols.a2t.client import A2T
from protocols.list_pages import ItemPage, NoKnownPages
from tests.scripted import Exchange, ScriptedSession
from tests.vendor import tool, tools

FIRST = {"pageLimit": "100"}
UPPER, LOWER = "A0B1C2D3-0000-4000-8000-00000000000F", "a0b1c2d3-0000-4000-8000-00000000000f"


def listing(body=None, **recorded):
    return Exchange(path="/tools", params=FIRST, body=body, **recorded)


def pages_of(*exchanges, known_pages=None, root="https://vendor.example/api", settings=None):
    session = ScriptedSession(*exchanges, root=root)
    return list(A2T(settings).enumerate(session, known_pages or NoKnownPages()))


def page_of(*items, **members):
    (page,) = pages_of(listing({"items": list(items), **members}))
    return page


def rejection(item):
    (rejected,) = page_of(item).rejected
    return rejected


def failure(body, **recorded):
    with pytest.raises(ProtocolViolationError) as caught:
        pages_of(listing(body, **recorded))
    return caught.value


def next_of(value, root="https://vendor.example/api"):
    body = {"items": [], "paging": {"next": value}}
    session = ScriptedSession(listing(body), root=root)
    return next(A2T().enumerate(session, NoKnownPages())).next


@pytest.mark.parametrize("paging", [{}, {"paging": None}, {"paging": {}}])
def test_list_without_paging_ends(paging):
    assert page_of(tool(1), **paging).next is None


@pytest.mark.parametrize("end", [None, ""])
def test_empty_next_ends_the_list(end):
    assert next_of(end) is None


def test_cursor_is_sent_back_as_it_came():
    cursor = "a b/ü?&=%"
    second = Exchange(path="/tools", params=FIRST | {"pageCursor": cursor}, body={"items": [tool(2)]})
    first, last = pages_of(listing({"items": [tool(1)], "paging": {"next": cursor}}), second)
    assert (first.cursor, first.next, last.cursor, last.next) == ("", cursor, cursor, None)


@pytest.mark.parametrize(
    ("root", "url"),
    [
        ("https://vendor.example/api", "https://vendor.example/api/tools?pageLimit=5&pageCursor=a%20b"),
        ("https://vendor.example/api", "HTTPS://VENDOR.example:443/x?pageCursor=a+b"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/tools?pageCursor=a%20b"),
    ],
)
def test_url_of_the_same_origin_gives_its_cursor(root, url):
    assert next_of(url, root) == "a b"


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/tools?pageCursor=a",
        "http://vendor.example/tools?pageCursor=a",
        "https://vendor.example:8443/tools?pageCursor=a",
        "https://vendor.example.evil.example/tools?pageCursor=a",
        "https://vendor.example@evil.example/tools?pageCursor=a",
        "file:///etc/passwd",
    ],
)
def test_url_of_another_origin_ends_the_run(url):
    with pytest.raises(ProtocolViolationError) as caught:
        next_of(url)
    assert caught.value.code == "FOREIGN_NEXT"


@pytest.mark.parametrize(
    "cursor",
    [
        5,
        ["a"],
        {"cursor": "a"},
        True,
        "a" * 2049,
        "a\r\nX-Header: b",
        "a\x00",
        "\ud800",
        "https://vendor.example/tools",
        "https://vendor.example/tools?pageCursor=",
        "https://vendor.example/tools?pageCursor=%0d%0a",
        "https://[vendor.example/tools?pageCursor=a",
        "https://vendor.example:99999/tools?pageCursor=a",
    ],
)
def test_next_that_is_no_cursor_ends_the_run(cursor):
    with pytest.raises(ProtocolViolationError) as caught:
        next_of(cursor)
    assert caught.value.code == "BAD_CURSOR"


def test_longest_cursor_is_taken():
    assert next_of("a" * 2048) == "a" * 2048


def test_bare_array_is_one_page_with_a_note():
    (page,) = pages_of(listing(tools(2)))
    assert len(page.items) == 2
    assert [note.code for note in page.notes] == ["BARE_ARRAY"]


@pytest.mark.parametrize("body", [{}, {"items": {}}, {"items": None}, "tools", 5, None])
def test_reply_that_is_no_list_ends_the_run(body):
    assert failure(body).code == "SHAPE"


def test_list_of_the_other_protocol_of_this_name_is_told_apart():
    error = failure({"tools": [{"name": "a"}], "total": 1, "offset": 0, "limit": 100})
    assert error.code == "SHAPE"
    assert "another protocol" in error.message


def test_paging_that_is_no_object_ends_the_run():
    assert failure({"items": [], "paging": "p2"}).code == "SHAPE"


@pytest.mark.parametrize(
    ("recorded", "code"),
    [
        ({"text": ""}, "EMPTY_REPLY"),
        ({"text": '{"items": [NaN]}'}, "JSON_SYNTAX"),
        ({"text": '{"items": [], "items": []}'}, "JSON_DUPLICATE"),
        ({"text": "<html>", "headers": {"content-type": "text/html"}}, "NOT_JSON"),
    ],
)
def test_reply_that_cannot_be_read_one_way_only_ends_the_run(recorded, code):
    assert failure(None, **recorded).code == code


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("https://vendor.example", "/tools"),
        ("https://vendor.example/v2", "/tools"),
        ("https://vendor.example/mytools", "/tools"),
        ("https://vendor.example/tools", ""),
        ("https://vendor.example/v2/tools/", ""),
    ],
)
def test_address_may_be_the_root_or_the_list(root, path):
    session = ScriptedSession(Exchange(path=path, params=FIRST, body={"items": []}), root=root)
    assert len(list(A2T().enumerate(session, NoKnownPages()))) == 1
    session = ScriptedSession(Exchange(path=f"{path}/{LOWER}", body=tool(1, toolId=LOWER)), root=root)
    assert A2T().fetch(session, LOWER).tool_id == LOWER


def test_page_size_is_asked_for():
    session = ScriptedSession(Exchange(path="/tools", params={"pageLimit": "7"}, body={"items": []}))
    assert len(list(A2T({"page_size": 7}).enumerate(session, NoKnownPages()))) == 1


class Remembering:
    """Knows the first page, by its ETag and by its bytes."""

    def __init__(self, body=b"", etag='"v1"'):
        self.digest = hashlib.sha256(body).hexdigest()
        self.remembered = etag
        self.page = ItemPage(items=[], is_known=True, etag=etag)

    def etag(self, cursor):
        return self.remembered

    def recall(self, cursor, reply):
        is_same = reply.status == 304 or hashlib.sha256(reply.body).hexdigest() == self.digest
        return self.page if is_same else None


def test_unchanged_page_is_not_sent_again():
    known_page = Remembering()
    session = ScriptedSession(listing(status=304, text=""))
    assert list(A2T().enumerate(session, known_page)) == [known_page.page]
    assert session.asked == [{"If-None-Match": '"v1"'}]


def test_page_with_known_bytes_is_not_parsed():
    known_page = Remembering(b"this is not even JSON")
    assert pages_of(listing(text="this is not even JSON"), known_pages=known_page) == [known_page.page]


def test_changed_page_is_read_though_it_was_known():
    (page,) = pages_of(
        listing({"items": tools(1)}, headers={"etag": '"v2"'}), known_pages=Remembering(b"before")
    )
    assert (len(page.items), page.etag, page.is_known) == (1, '"v2"', False)


def test_not_modified_without_having_asked_is_a_violation():
    session = ScriptedSession(listing(status=304, text=""))
    with pytest.raises(ProtocolViolationError):
        list(A2T().enumerate(session, NoKnownPages()))
    assert session.asked == [{}]


def test_etag_that_no_header_could_carry_is_forgotten():
    (page,) = pages_of(listing({"items": []}, headers={"etag": '"a\x7fb"'}))
    assert page.etag == ""


def test_page_is_known_by_the_digest_of_its_bytes():
    text = '{ "items" : [] }'
    (page,) = pages_of(listing(text=text))
    assert page.body_digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("member", ["toolId", "toolID", "tool_id"])
def test_tool_id_has_three_spellings(member):
    item = tool(1)
    spelled = {member: item.pop("toolId")} | item
    assert [item.tool_id for item in page_of(spelled).items] == [tool(1)["toolId"]]


def test_tool_id_given_twice_alike_is_fine_and_differently_is_not():
    same = tool(1)["toolId"]
    assert page_of(tool(1, toolID=same, tool_id=None)).items[0].tool_id == same
    rejected = rejection(tool(1, toolID="other"))
    assert (rejected.tool, rejected.code) == ("#1", "BAD_TOOL_ID")
    assert rejected.reason == "“toolId” and “toolID” contradict each other."


@pytest.mark.parametrize("tool_id", ["lookup-weather", "a b", "ünïcode", "urn:tool:5", "a.b", "x" * 255])
def test_tool_id_need_not_be_a_uuid(tool_id):
    assert page_of(tool(1, toolId=tool_id)).items[0].tool_id == tool_id


@pytest.mark.parametrize(
    "tool_id",
    ["", "a/b", "a?b", "a#b", "a\nb", "a\x7f", "\x85", ".", "..", "x" * 256, 5, None, True, ["a"], "a\x00"],
)
def test_tool_id_that_no_address_can_carry_is_rejected(tool_id):
    rejected = rejection(tool(1, toolId=tool_id))
    assert rejected.tool == "#1"
    assert rejected.code in ("BAD_TOOL_ID", "JSON_NUL")


def test_ids_keep_the_vendors_spelling():
    page = page_of(tool(1, toolId=UPPER), tool(1, toolId="Weather"), tool(1, toolId="weather"))
    assert [item.tool_id for item in page.items] == [UPPER, "Weather", "weather"]


@pytest.mark.parametrize(
    ("version", "label"), [(1, "1"), ("7", "7"), ("007", "7"), (2**53 - 1, str(2**53 - 1))]
)
def test_version_is_a_number_or_its_digits(version, label):
    item = page_of(tool(1, version=version, currentVersion=version)).items[0]
    assert (item.label, item.label_key) == (label, (int(label),))


@pytest.mark.parametrize(
    "version",
    [0, -1, 1.5, 1.0, True, 10**30, 2**53, "0", "-1", "1.0", "", "one", "\uff11", "9" * 17, None, [1], {}],
)
def test_version_that_is_no_positive_number_rejects_the_item(version):
    rejected = rejection(tool(1, version=version))
    assert (rejected.tool, rejected.code) == (tool(1)["toolId"], "BAD_VERSION")
    assert rejected.reason.endswith("it must be a whole number from 1 up.")


def test_reason_names_the_value_without_trusting_it():
    reason = rejection(tool(1, version="\x1b[31m" + "x" * 500)).reason
    assert reason.startswith("“version” is “\\x1b[31mxxx")
    assert len(reason) < 200


def test_item_that_is_no_object_is_called_by_its_place():
    page = page_of(tool(1), 5, None, "tool", [tool(2)])
    assert [(rejection.tool, rejection.code) for rejection in page.rejected] == [
        ("#2", "SHAPE"),
        ("#3", "SHAPE"),
        ("#4", "SHAPE"),
        ("#5", "SHAPE"),
    ]
    assert len(page.items) == 1


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('"a \\u0000 b"', "JSON_NUL"),
        ('"\\ud800"', "JSON_SURROGATE"),
        ("1e400", "JSON_NUMBER"),
    ],
)
def test_value_that_cannot_be_stored_costs_its_item_alone(text, code):
    good, bad = '{"toolId": "a", "version": 1}', f'{{"toolId": "b", "version": 1, "extra": [{text}]}}'
    (page,) = pages_of(listing(text=f'{{"items": [{good}, {bad}]}}'))
    assert [item.tool_id for item in page.items] == ["a"]
    assert [(rejection.tool, rejection.code) for rejection in page.rejected] == [("b", code)]


def test_item_of_more_than_a_megabyte_is_rejected():
    rejected = rejection(tool(1, extra="x" * 1024 * 1024))
    assert rejected.code == "SCHEMA_TOO_BIG"


@pytest.mark.parametrize(
    ("current", "codes"), [(1, []), ("1", []), (None, []), (2, ["NOT_CURRENT"]), ("x", ["NOT_CURRENT"])]
)
def test_listed_version_that_is_not_the_current_one_is_noted(current, codes):
    item = page_of(tool(1, currentVersion=current)).items[0]
    assert [note.code for note in item.notes] == codes


def digest_of(item):
    return page_of(item).items[0].digest


def test_digest_leaves_out_the_current_version_alone():
    same = {member: value for member, value in tool(1).items() if member != "currentVersion"}
    assert digest_of(tool(1)) == digest_of(tool(1, currentVersion=9)) == digest_of(same)
    assert page_of(tool(1, currentVersion=9)).items[0].document["currentVersion"] == 9


def test_digest_ignores_the_order_of_members():
    assert digest_of(tool(1)) == digest_of(dict(reversed(tool(1).items())))


@pytest.mark.parametrize("member", [member for member in tool(1) if member != "currentVersion"])
def test_digest_sees_a_change_in_every_other_member(member):
    changed = {"version": 2, "toolId": LOWER}.get(member, "other")
    assert digest_of(tool(1)) != digest_of(tool(1) | {member: changed})


def test_digest_sees_members_that_nobody_knows():
    assert digest_of(tool(1)) != digest_of(tool(1, x_vendor={"a": 1}))


def fetched(body, tool_id="a", label=None):
    path = f"/tools/{tool_id}" + (f"/versions/{label}" if label else "")
    return A2T().fetch(ScriptedSession(Exchange(path=path, body=body)), tool_id, label)


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: {"items": [one]}, lambda one: [one]])
def test_one_tool_comes_bare_or_in_a_list(wrap):
    assert fetched(wrap(tool(1, toolId="a", version=3))).label == "3"


def test_fetched_version_may_be_older_than_the_current_one():
    assert fetched(tool(1, toolId="a", version=1, currentVersion=4), label="1").notes == ()


@pytest.mark.parametrize(
    ("body", "label"), [(tool(1, toolId="b"), None), (tool(1, toolId="a", version=2), "1")]
)
def test_another_tool_than_asked_for_is_a_violation(body, label):
    with pytest.raises(ProtocolViolationError) as caught:
        fetched(body, label=label)
    assert caught.value.code == "WRONG_TOOL"


def test_ids_are_escaped_in_addresses():
    session = ScriptedSession(
        Exchange(path="/tools/urn%3Aa%20b%25%C3%BC/versions/1", body=tool(1, toolId="urn:a b%ü"))
    )
    assert A2T().fetch(session, "urn:a b%ü", "1").label == "1"


def versions_of(*exchanges):
    return list(A2T().versions(ScriptedSession(*exchanges), "a"))


def test_versions_of_another_tool_are_rejected():
    body = [tool(1, toolId="a", version=2), tool(1, toolId="b"), tool(1, toolId="A", currentVersion=2)]
    (page,) = versions_of(Exchange(path="/tools/a/versions", params=FIRST, body={"items": body}))
    assert [item.label for item in page.items] == ["2", "1"]
    assert [(rejection.tool, rejection.code) for rejection in page.rejected] == [("b", "WRONG_TOOL")]
    assert not any(item.notes for item in page.items)


def test_versions_that_are_refused_for_another_reason_are_an_error():
    with pytest.raises(RefusedError):
        versions_of(Exchange(path="/tools/a/versions", params=FIRST, status=403))
