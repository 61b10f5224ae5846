from catalog.search.candidates import Hit, Ranking
from catalog.search.fit import Concept, FitFeatures, find_reasons, fits_badly, share_of, shipped_weights
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
    for has_meanings in (True, False):
        assert not fits_badly(covered, has_meanings=has_meanings)
        assert fits_badly(strange, has_meanings=has_meanings)


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
        assert weights["unmatched"] >= 0
        assert all(weights[name] <= 0 for name in FitFeatures._fields if name != "unmatched")
