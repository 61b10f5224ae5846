from collections import Counter

import pytest

from catalog.search import job_words, searched_texts, words
from catalog.search.job_words import JobWords, job_words_for, parse
from protocols.signature import Signature

GROUPS = """
# Money
payslip, paystub, wage slip | de: Gehaltsabrechnung | fr: bulletin de paie | es: nómina | zh: 工资单
parcel, package | de: Paket | fr: colis | zh: 包裹
track, trace | de: Verfolgung, wo ist | zh: 跟踪
phone, mobile
phone number, mobile number
!create, add | de: anlegen
"""
KNOWN = JobWords(parse(GROUPS))


def keys(text: str) -> set[str]:
    return {match.group.key for match in KNOWN.find(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("payslips of July", {"payslip"}),
        ("getPaystub", {"payslip"}),
        ("the wage slips", {"payslip"}),
        ("the wage and the slip", set()),
        ("Gehaltsabrechnungen abrufen", {"payslip"}),
        ("mon bulletin de paie", {"payslip"}),
        ("la nomina de julio", {"payslip"}),
        ("查看工资单", {"payslip"}),
        ("Paketverfolgung", {"parcel", "track"}),
        ("Wo ist mein Paket", {"parcel", "track"}),
        ("our phone numbers", {"phone number"}),
        ("", set()),
        ("\0 ~payslip #x", {"payslip"}),
    ],
)
def test_words_of_a_group_are_found_in_every_language(text, expected):
    assert keys(text) == expected


def test_the_object_of_a_phrasal_verb_may_be_before_its_particle():
    job_words = JobWords(parse("cancel, call off\nphone, call\nvisit, appointment"))
    found_keys = {match.group.key for match in job_words.find("call the next visit off")}
    assert found_keys == {"cancel", "visit"}
    far_match = job_words.find("call her and say that one thing is off")
    assert [match.group.key for match in far_match] == ["phone"]


def test_a_noun_is_not_taken_for_a_frequent_word_with_its_stem():
    job_words = JobWords(parse("product, goods\nrevenue, takings"))
    assert {match.group.key for match in job_words.find("goods and takings")} == {"product", "revenue"}
    assert job_words.find("take a good hotel") == []


def test_an_english_text_has_no_words_of_other_languages():
    job_words = JobWords(parse("grade | de: Note\nair | de: Luft"))
    assert job_words.find("a note about the page") == []
    assert {match.group.key for match in job_words.find("die Note der Klasse")} == {"grade"}


def test_a_line_that_is_an_act_says_so():
    assert [group.key for group in KNOWN.groups if group.is_act] == ["create"]


def test_tokens_are_no_words():
    assert all(words.is_marked(token) for token in job_words_for("where is my parcel"))


def test_shipped_groups_have_each_key_once_and_no_term_twice():
    groups = job_words.shipped_groups()
    assert len(groups) > 500
    assert [key for key, count in Counter(group.key for group in groups).items() if count > 1] == []
    assert {language for group in groups for language in group.terms} <= job_words.LANGUAGES.keys()
    for group in groups:
        for terms in group.terms.values():
            assert len(set(terms)) == len(terms), group.key
            assert all(len(term) < 60 for term in terms)


def test_a_group_in_the_name_weighs_more_than_one_in_the_description():
    signature = Signature(name="list_paystubs", description="Of one employee, by courier.")
    impacts = searched_texts.group_impacts(signature)
    assert impacts["~payslip"] > impacts["~courier"] > 0
