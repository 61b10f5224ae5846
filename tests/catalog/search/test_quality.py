import json
from io import StringIO

import msgspec
import pytest
from django.core.management import CommandError, call_command

from catalog import search
from catalog.search import quality
from catalog.search.quality import AskedQuestion, KnownQuestion, KnownTool
from tests.factories import make_signature, make_tool

TOOLS = [
    KnownTool(1, "POST /refunds", "create_refund", "bank"),
    KnownTool(2, "GET /refunds", "list_refunds", "bank"),
    KnownTool(3, "GET /refunds", "list_refunds", "shop"),
]


def test_answers_are_named_by_pattern_or_by_id():
    questions = [
        KnownQuestion(q="a", expected=("bank:*refund*",)),
        KnownQuestion(q="b", expected=("*:list_refunds", "*:POST *")),
        KnownQuestion(q="c", tools={"GET /refunds": 2}),
        KnownQuestion(q="d", tools={"GET /refunds": 2}, vendor="shop"),
        KnownQuestion(q="e"),
    ]
    assert quality.resolve_answers(questions, TOOLS) == [
        {1: 1, 2: 1},
        {1: 1, 2: 1, 3: 1},
        {2: 2, 3: 2},
        {3: 2},
        {},
    ]


def test_the_figures_are_by_set():
    question = KnownQuestion(q="a", set="one")
    answered = [
        AskedQuestion(question, {1: 1}, [1, 2], False, 2.0),
        AskedQuestion(question, {9: 1}, [1, 2, 3, 9], False, 4.0),
        AskedQuestion(KnownQuestion(q="b", set="none"), {}, [], True, 1.0),
    ]
    figures = quality.measure(answered)
    one = figures["one"]
    assert (one.questions, one.recall, one.in_first_three, one.in_first_ten, one.p95) == (
        2,
        1.0,
        0.5,
        1.0,
        4.0,
    )
    assert one.ndcg == pytest.approx((1 + 1 / 2.3219) / 2, abs=1e-3)
    assert (figures["none"].refused, figures["none"].ndcg) == (1.0, 0.0)


def test_a_better_grade_first_is_worth_more():
    assert quality.ndcg([1, 2], {1: 2, 2: 1}) == 1.0 > quality.ndcg([2, 1], {1: 2, 2: 1})


def test_a_malformed_line_is_named():
    with pytest.raises(msgspec.DecodeError, match="Line 2"):
        quality.parse(['{"q": "a"}', '{"q": 1}'])


@pytest.mark.django_db
def test_the_command_asks_the_catalog(tmp_path):
    make_tool(make_signature("create_refund", description="Give a customer the money back."))
    search.index_pending()
    path = tmp_path / "questions.jsonl"
    rows = [{"q": "refund", "expected": ["*:create_refund"]}, {"q": "x", "expected": ["*:nothing"]}]
    path.write_text("\n".join(map(json.dumps, rows)))
    out = StringIO()
    call_command("search_quality", path, "--json", stdout=out)
    figures = json.loads(out.getvalue())
    assert figures["questions"]["in_first_three"] == 1.0
    assert figures["questions"]["questions"] == 1


@pytest.mark.django_db
def test_a_file_that_is_no_list_of_questions_is_refused(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text("never mind")
    with pytest.raises(CommandError, match="Line 1"):
        call_command("search_quality", path)
