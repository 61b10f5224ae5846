from typing import get_args

from catalog.search.candidates import Hit, Ranking
from catalog.search.cosines import Cosines
from catalog.search.fit import (
    MAX_CHORE,
    Concept,
    FitFeatures,
    Sources,
    find_reasons,
    fits_badly,
    share_of,
    shipped_weights,
)
from catalog.search.ranker import RankedQuestion
from catalog.search.ranking import pack, term_key

CONCEPTS = [
    Concept("payslips", 4.0, frozenset(), frozenset({9})),
    Concept("applicant", 2.0, frozenset({2}), frozenset({8})),
    Concept("zebra", 4.0),
]


def test_the_reasons_name_each_word_once_and_the_best_place():
    reasons = find_reasons(CONCEPTS, name={9, 8}, terms={9, 8, 2})
    assert (reasons.name, reasons.words, reasons.job_words) == ([], ["applicant"], ["payslips"])
    assert find_reasons(CONCEPTS, name={2}, terms={2, 8}).name == ["applicant"]


def test_the_share_is_by_weight_and_a_word_in_the_name_counts_most():
    in_name, in_text = share_of(CONCEPTS, {2}, {2}), share_of(CONCEPTS, set(), {2})
    assert in_name == 0.2 > in_text > 0
    assert share_of(CONCEPTS, set(), {1}) == 0
    assert share_of(CONCEPTS, set(), {9}) > in_name


def test_a_question_of_nothing_fits():
    assert share_of([], set(), set()) == 1.0


def test_a_story_is_not_compared():
    assert share_of([Concept("zebra", 4.0)] * 8, set(), set()) == 0.0
    assert share_of([Concept("zebra", 4.0)] * 9, set(), set()) == 1.0


def test_a_question_that_tools_cover_fits_and_a_strange_one_does_not():
    covered = FitFeatures(share=0.9, best_share=0.9, share_and_meaning=0.6, nearest=0.7, length=0.4)
    strange = FitFeatures(
        share=0.2, best_share=0.2, share_and_meaning=0.05, nearest=0.3, length=0.4, unmatched=1.0
    )
    for sources in shipped_weights():
        assert not fits_badly(covered, sources)
        assert fits_badly(strange, sources)


def test_a_chore_in_the_words_of_a_trade_fits_worse_than_a_question_to_software():
    half = FitFeatures(share=0.6, best_share=0.7, clause_share=0.7, share_and_meaning=0.3, nearest=0.5)
    assert fits_badly(half._replace(chore=MAX_CHORE), "chores")
    assert not fits_badly(half._replace(chore=-MAX_CHORE), "chores")


def test_models_that_know_no_chores_have_weights_of_their_own():
    chores = Cosines({1: 0.5}, {1: 0.5}, chore=9.0)
    question = RankedQuestion([], {}, 0.0, 0.5, 0.0, "")
    assert Ranking(question=question, cosines=chores).find_fit().chore == MAX_CHORE
    assert Ranking(question=question, cosines=chores._replace(chore=None)).find_fit().chore == 0.0
    assert shipped_weights().keys() == set(get_args(Sources))
    assert shipped_weights()["meanings"]["chore"] == shipped_weights()["words"]["chore"] == 0.0


def test_a_clause_that_a_tool_answers_lowers_the_doubt():
    asked, story = Concept("refund", 1.0, frozenset({term_key("refund")})), Concept("aunt", 1.0)
    question = RankedQuestion([asked, story], {}, 0.0, 0.0, 0.0, "", [[asked, asked], [story, story]])
    ranking = Ranking(
        [Hit(True, True, False, -1.0, 1)], question=question, vectors={1: pack(["refund"], {"refund": 255})}
    )
    features = ranking.find_fit()
    assert features.clause_share == 1.0 > features.best_share
    assert shipped_weights()["meanings"]["clause_share"] < 0


def test_every_feature_has_a_weight():
    for weights in shipped_weights().values():
        assert weights.keys() == {"bias", *FitFeatures._fields}


def test_more_of_the_question_is_never_a_worse_fit():
    for weights in shipped_weights().values():
        assert weights["unmatched"] >= 0 <= weights["chore"]
        assert all(weights[name] <= 0 for name in FitFeatures._fields if name not in ("unmatched", "chore"))
