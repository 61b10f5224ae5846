import pytest

from catalog.search import question, words
from catalog.search.job_words import JobWords, parse
from catalog.search.vocabulary import Known, Spelling

STOPS = {"how", "do", "i", "a", "the", "it", "what", "can", "you", "with", "my", "me"}
HELD = {"refill": 1, "prescription": 2, "email": 3, "delete": 4, "it": 5, "github": 6}


def known(asked: question.Question) -> dict[str, Known]:
    return {
        word: Known(HELD.get(word), 10 if word in HELD else 0, word in STOPS, word) for word in asked.words
    }


def weigh(text: str, **spellings: list[Spelling]) -> question.Terms:
    asked = question.read(text)
    return question.weigh(asked, known(asked), spellings)


def test_stop_words_are_dropped_while_something_remains():
    assert set(weigh("how do I refill it").stress) == {1}


@pytest.mark.parametrize("text", ["it", "what can you do with it"])
def test_a_question_of_stop_words_only_keeps_them(text):
    assert set(weigh(text).stress) == {5}


def test_an_acronym_is_not_a_stop_word():
    assert set(weigh("refill for IT").stress) == {1, 5}


def test_words_that_only_ask_count_little_and_are_never_missed():
    terms = weigh("please help me refill")
    assert terms.unmatched == []
    assert terms.stress[1] == 1


def test_another_verb_for_the_same_action_counts_a_little():
    terms = weigh("remove my prescription")
    assert terms.stress[4] < terms.stress[2]
    assert terms.unmatched == []


def test_a_repeated_word_counts_a_little_more():
    assert 1 < weigh("refill refill refill").stress[1] < 1.5


def test_a_word_is_found_in_one_piece_or_in_parts():
    assert 6 in weigh("GitHub").stress
    assert weigh("GitHub").unmatched == []


def test_the_likeliest_repair_is_taken_and_told():
    spellings = [Spelling("refund", 8, 500, 2), Spelling("refill", 1, 10, 1)]
    terms = weigh("refil prescription", refil=spellings)
    assert terms.repaired == {"refil": "refill"}
    assert 8 not in terms.stress


def test_a_word_still_being_typed_is_not_a_mistake():
    begins = [Spelling("prescription", 2, 10, None)]
    terms = weigh("refill pres", pres=begins)
    assert (terms.repaired, terms.unmatched, terms.is_typing) == ({}, [], True)
    assert 2 in terms.stress


def test_a_rarity_that_begins_with_a_mistake_does_not_hide_the_common_word():
    spellings = [Spelling("refilleries", 7, 1, None), Spelling("refill", 1, 10, 1)]
    assert weigh("refille prescription", refille=spellings).repaired == {}
    spellings[1] = Spelling("refill", 1, 11, 1)
    terms = weigh("refille prescription", refille=spellings)
    assert terms.repaired == {"refille": "refill"}
    assert {1, 2, 7} == set(terms.stress)


def test_an_odd_repair_counts_half():
    sure = weigh("refilk", refilk=[Spelling("refill", 1, 10, 1)])
    odd = weigh("refibl", refibl=[Spelling("refund", 8, 10, 2)])
    assert odd.stress[8] < sure.stress[1] < 1


def test_a_repair_that_only_asks_counts_little():
    assert weigh("pleese refill", pleese=[Spelling("please", 9, 10, 1)]).stress[9] < 0.3


def test_words_nobody_knows_are_named_as_typed():
    assert weigh("refill Zebra zebra-crossing").unmatched == ["Zebra", "zebra", "crossing"]


def test_only_telling_words_are_looked_for_in_other_spellings():
    asked = question.read("please remove the emial")
    assert question.unknown(asked, known(asked)) == ["emial"]


def test_a_very_long_question_is_cut():
    assert len(question.read("word " * 1000).runs) == question.MAX_LENGTH // 5


def test_every_verb_knows_the_others_of_its_action():
    assert "create" in words.SYNONYMS["add"]
    assert all(verb not in others for verb, others in words.SYNONYMS.items())


PARCELS = JobWords(parse("parcel, package | de: Paket\n!create, add | de: anlegen"))


def weigh_grouped(text: str, counts: dict[str, int]) -> question.Terms:
    asked = question.read(text, PARCELS)
    lexemes = {word: place for place, word in enumerate(counts, 1)}
    held = {word: Known(lexemes.get(word), counts.get(word, 0), word in STOPS, word) for word in asked.words}
    return question.weigh(asked, held, {})


def test_a_word_counts_for_its_group_as_far_as_tools_use_other_words():
    rare = weigh_grouped("parcels", {"~parcel": 10}).stress[1]
    common = weigh_grouped("parcel", {"~parcel": 10, "parcel": 9})
    assert 0 < common.stress[1] < rare
    assert weigh_grouped("parcel", {"~parcel": 10, "parcel": 10}).groups == {}


def test_a_word_of_a_group_that_tools_have_is_not_missed():
    assert weigh_grouped("parcels", {"~parcel": 10}).unmatched == []
    assert weigh_grouped("parcels", {}).unmatched == ["parcels"]


def test_a_word_of_another_language_counts_more():
    german = weigh_grouped("Paket anlegen", {"~parcel": 10, "~create": 500})
    english = weigh_grouped("parcel add", {"~parcel": 10, "~create": 500})
    assert german.stress[1] > english.stress[1]
    assert german.stress[2] > 0
    assert 2 not in english.stress


@pytest.mark.parametrize("word", ["rain", "sanctions", "lottery"])
def test_a_word_that_a_language_has_is_never_repaired(word):
    terms = weigh(word, **{word: [Spelling("refill", 1, 10, 1)]})
    assert (terms.repaired, terms.unmatched) == ({}, [word])
