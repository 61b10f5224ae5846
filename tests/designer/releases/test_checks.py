"""Checks before publishing, by the facts alone."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from designer.exports.base import CarriedTools, Remark
from designer.exports.document import ReleasedAgent, ReleaseDocument, ReleasedTool, ReleasedVersion
from designer.releases.checks import Check, CheckedAgent, CheckedTool, checks, not_accepted
from designer.signatures.effective import effective
from tests.factories import make_signature

SENTENCES = st.sampled_from(["", "It is so."])
TOOLS = st.builds(
    CheckedTool,
    name=st.sampled_from(["sky", "mail"]),
    where=st.just("/agents/desk/pins/1/"),
    blocked=SENTENCES,
    held=SENTENCES,
    under_review=SENTENCES,
    gone=SENTENCES,
    outside=SENTENCES,
    misfits=st.lists(st.tuples(st.just("“unit” is required."), st.booleans())).map(tuple),
    breaks=st.lists(st.just("“unit” is gone.")).map(tuple),
)


def document(*names: str) -> ReleaseDocument:
    tools = tuple(
        ReleasedTool(
            id=number,
            tool_id=str(number),
            vendor="v",
            endpoint="http://v/",
            protocol="a2t",
            version=ReleasedVersion(ordinal=1, label="1", digest="d"),
            signature=effective(make_signature(name), name=name),
            tuning={},
        )
        for number, name in enumerate(names)
    )
    agent = ReleasedAgent(slug="desk", name="Desk", description="")
    return ReleaseDocument(schema="s", agent=agent, number=1, tools=tools)


def facts(*tools: CheckedTool, **more) -> CheckedAgent:
    usual = {
        "draft": document("sky"),
        "tools": tools or (CheckedTool(name="sky", where="/w/", is_tuned=True),),
        "carried": (("MCP", CarriedTools(document("sky"), [], [])),),
        "limits_vendors": True,
    }
    return CheckedAgent(**usual | more)


def codes(checks_found, severity):
    return [check.code for check in checks_found if check.severity == severity]


def test_a_sound_draft_passes_every_check():
    checks_found = checks(facts())
    assert {check.severity for check in checks_found} == {"ok"}
    assert {check.code for check in checks_found} == {
        "review",
        "offered",
        "vendors",
        "words",
        "names",
        "formats",
    }


def test_a_rule_with_nothing_to_check_reports_nothing():
    empty = CheckedAgent(draft=document(), tools=(), carried=())
    untuned = facts(CheckedTool(name="sky", where="/w/"), limits_vendors=False, carried=())
    assert checks(empty) == []
    assert {check.code for check in checks(untuned)} == {"review", "offered", "names"}


def test_each_fault_is_told_with_where_it_is_mended():
    sky, review = CheckedTool(name="sky", where="/pin/"), "/review/?item=1"
    cases = {
        "version_blocked": (replace(sky, blocked="No."), "error", "/pin/"),
        "version_held": (replace(sky, held="Wait.", review_where=review), "error", review),
        "version_under_review": (replace(sky, under_review="Odd."), "warning", "/pin/"),
        "tool_withdrawn": (replace(sky, gone="It is gone."), "warning", "/pin/"),
        "tuning_does_not_fit": (replace(sky, misfits=(("Shown.", True),)), "error", "/pin/"),
        "words_set_aside": (replace(sky, misfits=(("Aside.", False),)), "warning", "/pin/"),
        "breaking_move": (replace(sky, breaks=("“unit” is gone.",)), "warning", "/pin/"),
    }
    for code, (tool, severity, where) in cases.items():
        (check,) = [check for check in checks(facts(tool)) if check.severity != "ok"]
        assert (check.code, check.severity, check.where) == (code, severity, where)


def test_tools_that_become_others_to_clients_are_told_with_why():
    broken = {"sky": ["“a” is gone.", "“b” is gone.", "“c” is gone."]}
    (check,) = [check for check in checks(facts(strands=broken)) if check.severity != "ok"]
    assert (check.code, check.severity, check.where) == ("another_tool_id", "warning", "/w/")
    assert "“a” is gone. “b” is gone. And 1 more." in check.message


def test_two_tools_of_one_name_stop_publishing_whatever_their_case():
    checks_found = checks(facts(draft=document("Sky", "sky", "mail")))
    assert codes(checks_found, "error") == ["name_clash", "name_clash"]


def test_what_a_format_leaves_out_is_told_once_for_the_format():
    long = [Remark("blocks", "description_too_long", "sky", f"Too long {n}.") for n in range(4)]
    draft = document("sky", "mail")
    fitting = msgspec.structs.replace(draft, tools=draft.tools[1:])
    warned = [Remark("warns", "description_long", "mail", "Quite long.")]
    carried = (("A2T", CarriedTools(fitting, ["sky"], long)), ("MCP", CarriedTools(draft, [], warned)))
    blocked, risky = [
        check for check in checks(facts(draft=draft, carried=carried)) if check.severity != "ok"
    ]
    assert (blocked.code, risky.code) == ("format_cannot_carry", "format_may_refuse")
    assert "A2T contains only 1 of 2 tools" in blocked.message
    assert blocked.message.endswith("Too long 0. Too long 1. And 2 more.")
    assert "MCP" in risky.message
    assert risky.message.endswith("Quite long.")


@pytest.mark.parametrize(
    ("remark_codes", "check_code"),
    [(["not_checked"], "format_not_checked"), (["not_checked", "description_long"], "format_may_refuse")],
)
def test_an_export_that_is_too_large_to_be_checked_is_not_called_refused(remark_codes, check_code):
    draft = document("sky")
    remarks = [Remark("warns", code, "sky", "Too large.") for code in remark_codes]
    checks_found = checks(facts(draft=draft, carried=(("MCP", CarriedTools(draft, [], remarks)),)))
    (check,) = [check for check in checks_found if check.severity != "ok"]
    assert (check.code, check.severity) == (check_code, "warning")


def test_what_others_found_stands_among_the_rest():
    lint = Check(code="unknown_reference", severity="error", message="Line 3 names no tool.", where="/p/")
    checks_found = checks(facts(more=(lint,)))
    assert checks_found[0] == lint


CODES = st.lists(st.sampled_from(["version_held", "version_blocked"]))


@given(st.lists(TOOLS, max_size=3), CODES, st.booleans())
def test_only_what_is_accepted_by_who_may_is_let_through(tools, accept, is_admin):
    checks_found = checks(facts(*tools))
    remaining = not_accepted(checks_found, accept, is_admin=is_admin)
    errors = [check for check in checks_found if check.severity == "error"]
    for check in errors:
        may = check.code in accept and (is_admin or check.code != "version_blocked")
        assert (check in remaining) is not may
    assert all(check.severity == "error" for check in remaining)
    assert checks_found == sorted(
        checks_found, key=lambda check: ["error", "warning", "ok"].index(check.severity)
    )
