"""References in the text of a procedure: typed, stored by identity, shown by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from designer.procedures import steps
from designer.procedures.references import (
    KnownAgent,
    KnownInput,
    KnownOutput,
    Vocabulary,
    VocabularyTool,
    display_text,
    flat,
    parse,
    rendered_text,
    stored_text,
)

LOOK_UP = VocabularyTool(
    pin=12,
    name="look_up",
    wire_name="prescriptions.find",
    inputs=(KnownInput(id="acct/1", name="account_id"), KnownInput(id="channel", name="channel")),
    outputs=(KnownOutput(id="r=1", name="refills"),),
)
KNOWN = Vocabulary(tools=(LOOK_UP,), agents=(KnownAgent(id=7, name="transfer_to_billing", title="Billing"),))


@pytest.mark.parametrize(
    ("typed", "expected_text", "reads"),
    [
        ("Call look_up().", "Call {tool:12}.", "Call look_up()."),
        ("Call `LOOK_UP()`", "Call `{tool:12}`", "Call `look_up()`"),
        ("Use @look_up now", "Use {tool:12} now", "Use look_up() now"),
        ("pharmacy.look_up()", "pharmacy.{tool:12}", "pharmacy.look_up()"),
        ("look_up(account_id)", "{in:12/acct%2F1}", "look_up(account_id)"),
        (
            "look_up(account_id, channel=sms)",
            "{in:12/acct%2F1,channel=sms}",
            "look_up(account_id, channel=sms)",
        ),
        ('look_up(channel="by sms")', "{in:12/channel=by%20sms}", 'look_up(channel="by sms")'),
        ("look_up({account_id})", "{in:12/acct%2F1=%7Baccount_id%7D}", "look_up({account_id})"),
        (
            "look_up({account_id}, channel={way})",
            "{in:12/acct%2F1=%7Baccount_id%7D,channel=%7Bway%7D}",
            "look_up({account_id}, channel={way})",
        ),
        ("look_up({item:channel})", "{in:12/channel=%7Bchannel%7D}", "look_up({channel})"),
        ("look_up({member_no})", "{in:12/member_no=%7Bmember_no%7D}", "look_up({member_no})"),
        ("call({account_id})", "call({item:account_id})", "call({account_id})"),
        (
            "transfer_to_billing({account_id})",
            "transfer_to_billing({item:account_id})",
            "transfer_to_billing({account_id})",
        ),
        ("look_up().refills, then", "{out:12/r%3D1}, then", "look_up().refills, then"),
        ("look_up().gone", "{out:12/gone}", "look_up().gone"),
        ("transfer_to_billing()", "{agent:7}", "transfer_to_billing()"),
        ("their {account_id}", "their {item:account_id}", "their {account_id}"),
        ("{tool:12} {in:12/channel}", "{tool:12} {in:12/channel}", "look_up() look_up(channel)"),
        (
            "a@look_up.example, the form(s)",
            "a@look_up.example, the form(s)",
            "a@look_up.example, the form(s)",
        ),
        ("look_up (see below)", "look_up (see below)", "look_up (see below)"),
        ("look_up(s) and my-look_up()", "look_up(s) and my-look_up()", "look_up(s) and my-look_up()"),
        ("nothing()", "nothing()", "nothing()"),
    ],
)
def test_what_is_typed_is_kept_by_identity_and_shown_by_name(
    typed: str, expected_text: str, reads: str
) -> None:
    pieces = parse(typed, KNOWN)
    assert stored_text(pieces) == expected_text
    assert display_text(pieces) == reads
    assert stored_text(parse(reads, KNOWN)) == expected_text


def test_a_model_reads_items_by_their_bare_names() -> None:
    assert rendered_text(parse("{item:account_id} for {tool:12}", KNOWN)) == "account_id for look_up()"
    typed = "look_up({account_id}, channel={way}) and look_up(channel=“{a} b”)"
    assert rendered_text(parse(typed, KNOWN)) == (
        "look_up(account_id, channel=way) and look_up(channel=" + '"{a} b")'
    )


def test_an_item_as_an_argument_is_no_value_of_a_step() -> None:
    (step,) = steps.steps_of(parse("look_up({account_id}, channel=sms)", KNOWN))
    assert step.values == {"channel": "sms"}


def test_an_item_as_an_argument_is_referred_to_as_an_item_too() -> None:
    places = [(place.kind, place.target, place.member) for place in flat(parse("look_up({channel})", KNOWN))]
    assert places == [("input", 12, "channel"), ("item", None, "channel")]


def test_a_renamed_tool_changes_what_is_shown_and_not_what_is_kept() -> None:
    renamed = Vocabulary(tools=(VocabularyTool(pin=12, name="find_refills"),))
    pieces = parse("{tool:12} and {in:12/acct%2F1}", renamed)
    assert display_text(pieces) == "find_refills() and find_refills(acct_1)"
    assert stored_text(parse("{tool:12}", renamed)) == "{tool:12}"


def test_a_name_of_two_is_ambiguous_and_a_name_of_none_stays_as_typed() -> None:
    twins = Vocabulary(tools=(LOOK_UP,), agents=(KnownAgent(id=7, name="look_up", title="Look-ups"),))
    (piece,) = parse("look_up()", twins)
    assert piece.reference
    assert piece.reference.is_ambiguous
    assert piece.stored == "look_up()"


def test_places_are_those_of_what_is_shown() -> None:
    pieces = parse("a {tool:12}\r\nb {tool:12} {agent:7}", KNOWN)
    places = [(piece.line, piece.column) for piece in pieces if piece.reference]
    assert places == [(1, 2), (2, 2), (2, 12)]


REFERENCES = st.sampled_from(
    [
        "look_up()",
        "look_up(account_id)",
        "look_up().refills",
        "{tool:12}",
        "{in:12/channel=sms}",
        "{item:x}",
        "look_up({x})",
        "{in:12/channel=%7Bx%7D}",
        "unknown({x})",
        "transfer_to_billing()",
        "{agent:7}",
        "{agent:8}",
        "unknown()",
        "@look_up",
    ]
)
BETWEEN = st.sampled_from([" ", "\n", ". ", " (", "“", "\r\n", " {", ": "])
TEXTS = st.lists(st.tuples(BETWEEN, REFERENCES | st.text("ab(){}.@=", max_size=6)), max_size=15).map(
    lambda parts: "".join(between + part for between, part in parts)
)


@given(TEXTS)
def test_shown_and_stored_lead_to_each_other(text: str) -> None:
    pieces = parse(text, KNOWN)
    text_in_database, reads = stored_text(pieces), display_text(pieces)
    assert display_text(parse(text_in_database, KNOWN)) == reads
    assert text_in_database.count("\n") == reads.count("\n")
    # Saving without a change keeps the text unchanged.
    assert stored_text(parse(reads, KNOWN)) == text_in_database
