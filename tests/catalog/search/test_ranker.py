from typing import get_args

import pytest

from catalog.search import ranker, ranking
from catalog.search.cosines import Cosines
from catalog.search.fit import Concept
from catalog.search.ranker import Features, RankedQuestion
from catalog.search.searched_texts import GROUP_IN_NAME, GROUP_IN_TEXT


def keys(*terms):
    return frozenset(map(ranking.term_key, terms))


def make_question(*terms, act="", **fields):
    concepts = [Concept(term, 1.0, keys(term), keys(f"~{term}")) for term in terms]
    gains = ranking.by_key(dict.fromkeys(terms, 2.0))
    defaults = {"best_score": 2.0, "best_cosine": 0.5, "covered": 1.0}
    return RankedQuestion(concepts, gains, act=act, **defaults | fields)


def pack(name, *others):
    return ranking.pack(name.split(), dict.fromkeys([*name.split(), *others], 255))


def test_features_distinguish_the_name_from_other_texts_and_groups():
    question = make_question("refund", "order")
    in_name = ranker.find_features(question, 2.0, (0.5, 0.5), pack("refund"))
    mentioned = ranker.find_features(question, 1.0, (0.25, 0.25), pack("x", "refund"))
    grouped = ranker.find_features(question, 1.0, (0.25, 0.25), pack("x", "~refund"))
    assert (in_name.words, in_name.meaning, in_name.share_in_name, in_name.precision) == (1.0, 1.0, 0.5, 1.0)
    assert (mentioned.share_in_name, mentioned.share, mentioned.meaning) == (0.0, 0.4, 0.5)
    assert (grouped.share_in_groups, grouped.share) == (0.5, 0.5)
    assert in_name.name == pytest.approx(1.0)


def test_a_group_in_the_name_is_told_from_one_in_other_texts():
    question = make_question("refund")
    for impact, share in ((GROUP_IN_NAME, 1.0), (GROUP_IN_TEXT, 0.0)):
        vector = ranking.pack(["x"], {"x": 255, "~refund": impact})
        assert ranker.find_features(question, 1.0, (0.5, 0.5), vector).share_in_named_groups == share


def test_a_name_that_only_groups_explain_counts_in_very_short_questions():
    def explained(*terms):
        question = make_question(*terms, group_keys=keys("refund", "money"))
        return ranker.find_features(question, 1.0, (0.5, 0.5), pack("money refund")).explained

    assert explained("cash") > explained("cash", "back") > 0
    assert explained("cash", "refund") == explained("cash", "back") / 2
    assert explained(*(f"word{number}" for number in range(ranker.MAX_CONCEPTS))) == 0


def test_the_places_by_words_are_those_among_the_ordered_tools():
    cosines = Cosines({7: 0.5, 8: 0.1}, {7: 0.5, 8: 0.1})
    features = ranker.find_all_features(
        make_question("refund"), [7, 8], {8: 2.0}, {7: 1.0, 8: 4.0}, cosines, {}
    )
    assert [features[tool].word_place for tool in (8, 7)] == [1.0, 0.5]
    assert [features[tool].fused for tool in (8, 7)] == [1.0, 0.25]


def test_the_nearest_clause_of_a_story_is_a_feature():
    cosines = Cosines({7: 0.5}, {7: 0.5}, clauses={7: 0.8})
    features = ranker.find_all_features(make_question("refund"), [7], {7: 1.0}, {7: 1.0}, cosines, {})
    assert features[7].clause == 0.8


def test_a_tool_that_its_meaning_alone_has_found_has_no_words():
    features = ranker.find_features(make_question("refund"), 0.0, (0.4, 0.4), None)
    assert (features.words, features.share, features.cosine) == (0.0, 0.0, 0.4)


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("cancel the order", "delete"),
        ("please send a letter", "create"),
        ("which doctors are free", "read"),
        ("parcels", ""),
        ("the order that I want to cancel", ""),
    ],
)
def test_the_act_of_a_question_is_in_its_first_words(text, act):
    assert ranker.find_act(text.split()) == act


def test_a_name_with_another_act_is_told_from_one_with_the_act():
    question = make_question("order", act="delete")
    deletes = ranker.find_features(question, 1.0, (0.5, 0.5), pack("cancel order"))
    reads = ranker.find_features(question, 1.0, (0.5, 0.5), pack("list order"))
    names_none = ranker.find_features(question, 1.0, (0.5, 0.5), pack("order"))
    assert [(one.is_act, one.is_other_act) for one in (deletes, reads, names_none)] == [
        (1.0, 0.0),
        (0.0, 1.0),
        (0.0, 0.0),
    ]


def make_long_question(length):
    return make_question(*(f"word{number}" for number in range(length)))


def test_stories_have_weights_and_tasks_and_unknown_words_have_none():
    unknown = [Concept(word, 1.0) for word in ("eins", "zwei")]
    assert make_question("refund").kind == "short"
    assert make_long_question(ranker.MAX_CONCEPTS + 1).kind == "story"
    assert make_long_question(ranker.MAX_CONCEPTS_OF_STORY + 1).kind is None
    assert RankedQuestion(unknown, {}, 1.0, 1.0, 0.0, "").kind is None


def test_a_whole_name_of_several_words_is_told_from_a_part_of_one():
    question = make_question("refund", "order", "customer")

    def has_whole_name(name):
        return ranker.has_whole_name(ranker.find_features(question, 1.0, (0.5, 0.5), pack(name)))

    assert has_whole_name("refund order")
    assert not has_whole_name("refund")
    assert not has_whole_name("refund order line")


def test_the_scores_are_given_out_in_another_order():
    scores = {1: 9.0, 2: 5.0, 3: 1.0}
    best = Features(words=1, name=1, meaning=1, cosine=0.9, share=1, share_in_name=1, precision=1)
    assert ranker.order(scores, {1: Features(), 2: best}, 1.0, "short") == {1: 5.0, 2: 9.0, 3: 1.0}


@pytest.mark.parametrize("kind", get_args(ranker.Kind))
def test_every_feature_has_weights(kind):
    assert len(ranker.shipped_weights(kind)) == len(Features._fields)


def test_what_a_vector_contains_is_read_back():
    vector = ranking.pack(["pay", "slip"], {"pay": 10, "slip": 20, "text": 30})
    name, impacts = ranking.unpack(vector, keys("slip", "text", "other"))
    assert name == keys("pay", "slip")
    assert impacts == ranking.by_key({"slip": 20, "text": 30})
