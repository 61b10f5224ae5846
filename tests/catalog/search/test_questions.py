import pytest

from catalog.search import question, ranking, words
from catalog.search.fit import Concept
from catalog.search.job_words import JobWords, parse
from catalog.search.vocabulary import Known, Spelling

STOPS = {"how", "do", "i", "a", "the", "it", "what", "can", "you", "with", "my", "me"}
HELD = {"refill", "prescription", "email", "delete", "it", "github"}


def known_words_of(question_read: question.Question) -> dict[str, Known]:
    return {
        word: Known(word, 10 if word in HELD else 0, is_stop=word in STOPS) for word in question_read.words
    }


def weigh(text: str, **spellings: list[Spelling]) -> question.Terms:
    question_read = question.read(text)
    return question.weigh(question_read, known_words_of(question_read), spellings)


def test_stop_words_are_dropped_while_something_remains():
    assert set(weigh("how do I refill it").stress) == {"refill"}


@pytest.mark.parametrize("text", ["it", "what can you do with it"])
def test_a_question_of_stop_words_only_keeps_them(text):
    assert set(weigh(text).stress) == {"it"}


def test_an_acronym_is_not_a_stop_word():
    assert set(weigh("refill for IT").stress) == {"refill", "it"}


def test_words_that_only_ask_count_little_and_are_never_missed():
    terms = weigh("please help me refill")
    assert terms.unmatched == []
    assert terms.stress["refill"] == 1


def test_words_typed_in_a_hurry_ask_as_their_long_forms_do():
    terms = weigh("pls refill, whats left, cant wait")
    assert terms.unmatched == ["left", "wait"]
    assert {"tmrw", "yrs"} <= question.circumstances()


def test_another_verb_for_the_same_action_counts_a_little():
    terms = weigh("remove my prescription")
    assert terms.stress["delete"] < terms.stress["prescription"]
    assert terms.unmatched == []


def test_a_repeated_word_counts_a_little_more():
    assert 1 < weigh("refill refill refill").stress["refill"] < 1.5


def test_a_word_is_found_in_one_piece_or_in_parts():
    assert "github" in weigh("GitHub").stress
    assert weigh("GitHub").unmatched == []


def test_the_likeliest_repair_is_taken_and_told():
    spellings = [Spelling("refund", "refund", 500, 2), Spelling("refill", "refill", 10, 1)]
    terms = weigh("refil prescription", refil=spellings)
    assert terms.repaired == {"refil": "refill"}
    assert "refund" not in terms.stress


def test_a_word_still_being_typed_is_not_a_mistake():
    begins = [Spelling("prescription", "prescription", 10, None)]
    terms = weigh("refill pres", pres=begins)
    assert (terms.repaired, terms.unmatched, terms.is_typing) == ({}, [], True)
    assert "prescription" in terms.stress


def test_a_rarity_that_begins_with_a_mistake_does_not_hide_the_common_word():
    spellings = [Spelling("refilleries", "refilleries", 1, None), Spelling("refill", "refill", 10, 1)]
    assert weigh("refille prescription", refille=spellings).repaired == {}
    spellings[1] = Spelling("refill", "refill", 11, 1)
    terms = weigh("refille prescription", refille=spellings)
    assert terms.repaired == {"refille": "refill"}
    assert {"refill", "prescription", "refilleries"} == set(terms.stress)


def test_an_odd_repair_counts_half():
    sure = weigh("refilk", refilk=[Spelling("refill", "refill", 10, 1)])
    odd = weigh("refibl", refibl=[Spelling("refund", "refund", 10, 2)])
    assert odd.stress["refund"] < sure.stress["refill"] < 1


def test_a_repair_that_only_asks_counts_little():
    assert weigh("pleese refill", pleese=[Spelling("please", "please", 10, 1)]).stress["please"] < 0.3


def test_words_nobody_knows_are_named_as_typed():
    assert weigh("refill Zebra zebra-crossing").unmatched == ["Zebra", "zebra", "crossing"]


def test_only_telling_words_are_looked_for_in_other_spellings():
    question_read = question.read("please remove the emial")
    assert question.unknown(question_read, known_words_of(question_read)) == ["emial"]


def test_a_very_long_question_is_cut():
    assert len(question.read("word " * 1000).runs) == question.MAX_LENGTH // 5


def test_every_verb_knows_the_others_of_its_action():
    assert "create" in words.SYNONYMS["add"]
    assert all(verb not in others for verb, others in words.SYNONYMS.items())


PARCELS = JobWords(parse("parcel, package | de: Paket\n!create, add | de: anlegen"))


def weigh_grouped(text: str, counts: dict[str, int]) -> question.Terms:
    question_read = question.read(text, PARCELS)
    known_words = {
        word: Known(word, counts.get(word, 0), is_stop=word in STOPS) for word in question_read.words
    }
    return question.weigh(question_read, known_words, {})


def test_a_word_counts_for_its_group_as_far_as_tools_use_other_words():
    rare = weigh_grouped("parcels", {"~parcel": 10}).stress["~parcel"]
    common = weigh_grouped("parcel", {"~parcel": 10, "parcel": 9})
    assert 0 < common.stress["~parcel"] < rare
    assert weigh_grouped("parcel", {"~parcel": 10, "parcel": 10}).groups == {}


def test_a_word_of_a_group_that_tools_have_is_not_missed():
    assert weigh_grouped("parcels", {"~parcel": 10}).unmatched == []
    assert weigh_grouped("parcels", {}).unmatched == ["parcels"]


def test_a_word_of_another_language_counts_more():
    german = weigh_grouped("Paket anlegen", {"~parcel": 10, "~create": 500})
    english = weigh_grouped("parcel add", {"~parcel": 10, "~create": 500})
    assert german.stress["~parcel"] > english.stress["~parcel"]
    assert german.stress["~create"] > 0
    assert "~create" not in english.stress


def test_a_time_a_number_or_a_letter_decides_nothing():
    question_read = question.read("refill from A to B 12 on Friday")
    known_words = known_words_of(question_read)
    concepts = question.find_concepts(
        question_read, known_words, question.weigh(question_read, known_words, {}), 100
    )
    weights = {concept.word: concept.weight for concept in concepts}
    assert weights["refill"] > 0
    assert {weights[word] for word in ("B", "12", "Friday")} == {0.0}


@pytest.mark.parametrize("word", ["rain", "sanctions", "lottery"])
def test_a_word_that_a_language_has_is_never_repaired(word):
    terms = weigh(word, **{word: [Spelling("refill", "refill", 10, 1)]})
    assert (terms.repaired, terms.unmatched) == ({}, [word])


def test_a_question_is_rephrased_with_the_words_of_vendors():
    job_words = JobWords(parse("refund, reimburse, money back\n!delete, remove | de: löschen"))

    def rephrase(text):
        return question.rephrase(question.read(text, job_words), text)

    assert rephrase("give the money back!") == "give the money back. refund reimburse"
    assert rephrase("Datei löschen") == "Datei löschen. delete remove"
    assert rephrase("remove the file") == ""
    assert rephrase("refund and reimburse") == ""


def test_the_clauses_of_a_story_are_rephrased_one_by_one():
    job_words = JobWords(parse("refund, reimburse, money back"))
    text = "I was away for a week, oh well, and now I want my money back."
    assert question.rephrase_clauses(text, job_words) == [
        "I was away for a week",
        "and now I want my money back. refund reimburse",
    ]
    assert question.rephrase_clauses("give my money back", job_words) == [
        "give my money back. refund reimburse"
    ]


def test_the_groups_of_a_question_have_the_words_of_names():
    job_words = JobWords(parse("refunds, money back\n!delete, remove"))
    question_read = question.read("remove it and give the money back", job_words)
    assert question_read.group_keys == {ranking.term_key(stem) for stem in ("refund", "money", "back")}


def test_a_word_that_no_tool_has_outweighs_none_that_some_have():
    question_read = question.read("refill the amphora")
    known_words = known_words_of(question_read)
    concepts = question.find_concepts(
        question_read, known_words, question.weigh(question_read, known_words, {}), 12
    )
    weights = {concept.word: concept.weight for concept in concepts}
    assert weights["amphora"] == weights["refill"]


def concepts_of(text: str) -> tuple[question.Question, list[Concept[bytes]]]:
    question_read = question.read(text)
    known = known_words_of(question_read)
    return question_read, question.find_concepts(
        question_read, known, question.weigh(question_read, known, {}), 99
    )


@pytest.mark.parametrize("word", ["tmrw", "20kg", "75k", "seven", "leeds", "maria", "mrs"])
def test_times_amounts_people_and_places_want_no_tool(word):
    weights = {concept.word: concept.weight for concept in concepts_of(f"refill prescription {word}")[1]}
    assert weights.pop(word) == 0
    assert all(weights.values())


def test_a_clause_has_several_concepts():
    text = "what can I do with it, refill the prescription - delete email"
    clauses = question.split_clauses(text, concepts_of(text)[1])
    assert [[concept.word for concept in clause] for clause in clauses] == [
        ["refill", "prescription"],
        ["delete", "email"],
    ]
