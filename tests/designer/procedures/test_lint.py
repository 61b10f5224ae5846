"""Warnings about the text of a procedure."""

from typing import Any

import pytest

from benchmarks import procedure_labels
from designer.procedures import issues, lint
from designer.procedures.lint import Elsewhere
from designer.procedures.references import (
    KnownAgent,
    KnownInput,
    KnownOutput,
    Vocabulary,
    VocabularyTool,
    parse,
)
from designer.procedures.template import TEMPLATE

LOOK_UP = VocabularyTool(
    pin=1,
    name="look_up_prescriptions",
    inputs=(KnownInput(id="a", name="accountID", is_required=True),),
    outputs=(KnownOutput(id="p", name="prescriptions", holds=("number", "drug")),),
)
REFILL = VocabularyTool(
    pin=2,
    name="request_refill",
    inputs=(
        KnownInput(id="n", name="prescription_number", is_required=True),
        KnownInput(id="c", name="channel", is_required=True, allowed=("sms", "email")),
        KnownInput(id="s", name="store", is_required=True, is_given=True),
    ),
    hidden=frozenset({"secret"}),
)
VERIFY = VocabularyTool(pin=3, name="verify_caller", description="Verifies the identity of a caller.")
PHARMACY = Vocabulary(
    tools=(LOOK_UP, REFILL, VERIFY), agents=(KnownAgent(id=7, name="transfer_to_billing", title="Billing"),)
)
REFILL_FLOW = """\
# Goal

Help members to get a refill.
{authentication}
# Flow

1. Look up the member's prescriptions with look_up_prescriptions(). It takes the account ID that comes
   from the authentication.
2. Read out look_up_prescriptions().prescriptions and let the member choose one prescription.
3. Ask whether the notice goes by sms or email, then call request_refill().
"""


def codes(text: str, words: Vocabulary = PHARMACY, **elsewhere: Elsewhere) -> list[tuple[int | None, str]]:
    return [(remark.line, remark.code) for remark in lint.lint(parse(text, words), words, elsewhere)]


def with_state(state: Any) -> Vocabulary:
    return Vocabulary(tools=(VocabularyTool(pin=1, name="look_up", state=state),))


def test_an_account_that_nothing_gives_is_told_where_it_is_needed():
    assert codes(REFILL_FLOW.format(authentication="")) == [(7, "input_not_supplied")]


def test_an_authentication_before_supplies_the_account():
    section = "\n# Authentication\n\nThe member must be authenticated, which gives the account ID.\n"
    assert codes(REFILL_FLOW.format(authentication=section)) == []


@pytest.mark.parametrize(
    "section",
    [
        "Authentication gives you the account ID.",
        "The authentication step yields the accountID.",
        "This task requires prior authentication of the member.",
        "Authentication is required.",
        "The member must have completed authentication.",
    ],
)
def test_an_authentication_may_be_said_in_many_ways(section):
    assert codes(REFILL_FLOW.format(authentication=f"\n{section}\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "Tools in this procedure: look_up_prescriptions(), request_refill()",
        "## Tools\n- look_up_prescriptions(): what the member has\n- request_refill(): orders it",
        "Tools you can use:\n- `look_up_prescriptions()`\n- `request_refill()`",
        "Set `channel` to `sms` for {prescription}: request_refill()",
        "Call request_refill() for {prescription} with `channel` set to `email`",
        "Call look_up_prescriptions({accountID}).",
        "Call request_refill({prescription_number}, channel={way}).",
    ],
)
def test_what_is_clean(text):
    assert codes(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "## Tools\n- request_refill()\n\n## Steps\n1. Call look_up_prescriptions().",
        "Tools: request_refill()\n\nSteps\n\n1. Call look_up_prescriptions().",
    ],
)
def test_a_list_of_tools_ends(text):
    assert [code for _, code in codes(text)] == ["input_not_supplied"]


@pytest.mark.parametrize(
    "step",
    [
        "Call look_up_prescriptions(), which requires authentication.",
        "Call look_up_prescriptions() with the account ID that authentication gives.",
        "Pass the accountID, which needs to come from authentication, to look_up_prescriptions().",
    ],
)
def test_what_takes_the_account_from_authentication_is_none(step):
    assert codes(step) == [(1, "input_not_supplied")]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Use look_upp_prescriptions().", "unknown_reference"),
        ("Use {tool:99}.", "unknown_reference"),
        ("Use track().", "not_pinned"),
        ("Use pay().", "ambiguous_reference"),
        ("Use bill().", "other_agents_tool"),
        ("{accountID}: look_up_prescriptions(customer)", "unknown_input"),
        ("{prescription} sms: request_refill(secret)", "unknown_input"),
        ("{accountID}: look_up_prescriptions({customer})", "unknown_input"),
        ("{accountID}: look_up_prescriptions(), look_up_prescriptions().refills", "unknown_output"),
        ('{prescription}: request_refill(channel="fax")', "value_not_allowed"),
        ('{prescription}: request_refill() with `channel` set to "fax"', "value_not_allowed"),
        ("look_up_prescriptions().prescriptions", "result_before_call"),
        ("Call look_up_prescriptions()", "input_not_supplied"),
    ],
)
def test_each_fault_has_its_code_on_its_line(text: str, code: str) -> None:
    elsewhere = {
        "track": Elsewhere(tools=1),
        "pay": Elsewhere(tools=2),
        "bill": Elsewhere(tools=1, agents=("Billing",)),
    }
    faults = [fault for fault in codes(f"First.\n{text}", **elsewhere) if fault[1] != "input_not_supplied"]
    assert (faults or codes(f"First.\n{text}", **elsewhere)) == [(2, code)]


@pytest.mark.parametrize(
    ("state", "code", "severity"),
    [
        ("withdrawn", "tool_withdrawn", "warning"),
        ("held", "version_held", "error"),
        ("blocked", "version_blocked", "error"),
        ("removed", "not_pinned", "error"),
    ],
)
def test_what_cannot_run_is_told_at_each_mention(state: str, code: str, severity: str) -> None:
    words = with_state(state)
    remarks = lint.lint(parse("look_up() and\n{tool:1}", words), words)
    assert [(remark.line, remark.code, remark.severity) for remark in remarks] == [
        (1, code, severity),
        (2, code, severity),
    ]


def test_a_near_name_is_proposed():
    (remark,) = lint.lint(parse("look_up_prescription()", PHARMACY), PHARMACY)
    assert remark.fix == "Did you mean look_up_prescriptions()?"
    assert remark.instead == "look_up_prescriptions"


def test_what_no_procedure_names_is_told_of_the_agent():
    texts = [parse("look_up_prescriptions()", PHARMACY)]
    remarks = lint.unreferenced_issues(texts, PHARMACY)
    assert [(remark.line, remark.code) for remark in remarks] == [
        (None, "never_referenced"),
        (None, "never_referenced"),
        (None, "agent_unreachable"),
    ]
    assert lint.unreferenced_issues([], PHARMACY) == []
    assert lint.unreferenced_issues([parse("{tool:1} {tool:2} {tool:3} {agent:7}", PHARMACY)], PHARMACY) == []


def test_a_tool_that_is_ruled_out_is_not_called():
    assert codes("Never use request_refill() here.") == []


def test_five_hundred_lines_have_bounded_remarks():
    text = "\n".join("Call nothing() and look_up_prescriptions(), then request_refill()." for _ in range(500))
    assert len(lint.lint(parse(text, PHARMACY), PHARMACY)) == issues.MAX_ISSUES


@pytest.mark.parametrize("labelled", procedure_labels.SETS, ids=lambda path: path.stem)
def test_labelled_procedures_are_told_apart(labelled):
    """About half of them are clean. All were written without knowledge of the rules."""
    result = procedure_labels.judge(labelled)
    assert result.procedures >= 20
    assert result.precision >= 0.9
    assert result.recall >= 0.9


@pytest.mark.parametrize(
    ("required", "text", "is_supplied"),
    [
        ("notice_date", "Ask when they filed the return. Then", False),
        ("delivery_date", "Ask what date it was delivered. Then", True),
        ("moved_on", "Ask since when they have lived there. Then", True),
        ("resumeOn", "Ask when the boxes should start again. Then", True),
        (
            "arrival_date",
            "If it is a claim, ask on which day they landed and transfer_to_a_person(). Then",
            False,
        ),
        ("tax_year", "Ask which year the debt is from. Then", True),
        ("tax_reference", "Ref and postcode first, then", True),
        ("amount", "Take the money with", False),
        ("amount", "Ask for the amount, then charge it with", True),
        ("deployment_id", "If it was a deployment, take it back:", False),
        ("rider_height", "How tall is the rider? Then", True),
        ("fault", "Ask what is wrong with it. Then", True),
    ],
)
def test_a_question_supplies_what_it_asks_for(required, text, is_supplied):
    tool = VocabularyTool(
        pin=1, name="act", inputs=(KnownInput(id=required, name=required, is_required=True),)
    )
    vocabulary = Vocabulary(
        tools=(tool,), agents=(KnownAgent(id=1, name="transfer_to_a_person", title="A person"),)
    )
    issues = lint.lint(parse(f"Title\n\n{text} act().", vocabulary), vocabulary)
    assert [row.code for row in issues] == ([] if is_supplied else ["input_not_supplied"])


def test_hints_of_a_new_procedure_are_told_once_while_they_stand():
    (remark,) = lint.lint(parse(TEMPLATE, PHARMACY), PHARMACY)

    assert (remark.line, remark.code, remark.severity) == (3, "hint_left", "warning")
    assert remark.message == "This and 7 more lines are hints that a new procedure starts with."
    assert codes("# Goal\n\nA refill is on its way.\n") == []


def test_one_hint_that_was_left_is_told_at_its_line():
    (remark,) = lint.lint(parse("# Goal\n\nWhat the customer says or wants.\n", PHARMACY), PHARMACY)

    assert (remark.line, remark.message) == (3, "This line is a hint that a new procedure starts with.")


BIRTHS = Vocabulary(
    tools=(
        VocabularyTool(
            pin=1,
            name="find_patient",
            description="Finds a patient.",
            inputs=(KnownInput(id="b", name="date_of_birth", is_required=True),),
        ),
        VocabularyTool(
            pin=2,
            name="book_visit",
            inputs=(KnownInput(id="d", name="visit_date", is_required=True),),
        ),
        VocabularyTool(
            pin=3,
            name="list_claims",
            inputs=(KnownInput(id="m", name="member_id", is_required=True),),
        ),
    )
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ask which day suits.\nfind_patient()", [(2, "input_not_supplied")]),
        ("Ask which slot they want.\nfind_patient()", [(2, "input_not_supplied")]),
        ("Ask which slot they want.\nbook_visit()", [(2, "input_not_supplied")]),
        ("Ask for the date of birth.\nfind_patient()", []),
        ("Ask which day suits.\nbook_visit()", []),
    ],
)
def test_a_question_for_a_day_supplies_no_other_date(text, expected):
    assert codes(text, BIRTHS) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The caller is signed in, which gives {accountID}.\nlist_claims()", [(2, "input_not_supplied")]),
        ("The caller is signed in, which gives {memberID}.\nlist_claims()", []),
        ("The caller is signed in.\nlist_claims()", []),
    ],
)
def test_an_authentication_gives_the_id_that_it_names_and_no_other(text, expected):
    assert codes(text, BIRTHS) == expected


def test_an_authentication_that_no_tool_performs_is_a_warning():
    text = "Verify the caller's identity.\nAsk for the visit date, then call book_visit()."
    assert codes(text, BIRTHS) == [(1, "authentication_without_tool")]
    checks = VocabularyTool(pin=4, name="send_code", description="Sends a passcode to the caller's phone.")
    assert codes(text, Vocabulary(tools=(*BIRTHS.tools, checks))) == []
    desk = KnownAgent(id=5, name="transfer_to_identity_check", title="Identity check")
    assert codes(text, Vocabulary(tools=BIRTHS.tools, agents=(desk,))) == []
    assert codes("The app has signed the caller in.\nAsk which day suits: book_visit().", BIRTHS) == []
