import threading

import pytest
from django.db import connection

from catalog import search
from catalog.models import ToolChange, ToolTexts, Translation
from catalog.models.translations import TranslationOrigin
from catalog.search import Query
from catalog.translations import scan, stored
from catalog.translations.tool_texts import MAX_TRANSLATION, digest_of
from core.errors import DomainError
from people.audit.edit_conflicts import LateEditError, etag
from people.models import AuditEntry
from tests.factories import make_parameter, make_signature, make_tool, make_user, make_version

pytestmark = pytest.mark.django_db
INVOICE = "Creates an invoice for a customer"


def write(text: str, *, source: str = INVOICE, language: str = "de", **more) -> Translation:
    actor = more.pop("actor", None) or make_user("designer")
    return stored.write_translation(
        actor=actor, language=language, digest=digest_of(source), text=text, **more
    )


def find_tools(text: str) -> list[int]:
    return [row["id"] for row in search.search(Query(q=text)).rows]


def test_one_translation_serves_every_tool_with_the_same_text():
    first, second = (make_tool(make_signature(name, description=INVOICE)) for name in ("one", "two"))
    write("Legt eine Rechnung an")
    for tool in (first, second):
        (description, _) = stored.translate_tool(tool, "de")
        assert description.translation.text == "Legt eine Rechnung an"
    assert all(row.translation is None for row in stored.translate_tool(first, "fr"))


def test_a_changed_source_makes_the_former_translation_stale():
    tool = make_tool(make_signature("one", description=INVOICE))
    write("Legt eine Rechnung an")
    make_version(tool, make_signature("one", description=f"{INVOICE}."))
    description = stored.translate_tool(tool, "de")[0]
    assert description.translation is None
    assert description.is_stale
    assert description.former.text == "Legt eine Rechnung an"


def test_tools_are_found_by_words_of_both_languages():
    tool = make_tool(make_signature("make_bill", description=INVOICE))
    make_tool(make_signature("list_birds", description="Lists the birds of a region"))
    search.index_pending()
    scan.scan_pending()
    assert find_tools("zahlungsaufstellung") == []
    write("Legt eine Zahlungsaufstellung an")
    assert search.index_pending() == 1
    assert find_tools("zahlungsaufstellung") == find_tools("invoice") == [tool.pk]
    stored.remove_translation(actor=make_user("designer"), language="de", digest=digest_of(INVOICE))
    assert search.index_pending() == 1
    assert find_tools("zahlungsaufstellung") == []


def test_a_tool_that_is_scanned_after_its_translation_is_indexed_again():
    write("Legt eine Rechnung an")
    make_tool(make_signature("make_bill", description=INVOICE))
    make_tool(make_signature("list_birds", description="Lists the birds of a region"))
    search.index_pending()
    changes = ToolChange.objects.count()
    assert scan.scan_pending() == 2
    assert ToolChange.objects.count() == changes + 1
    assert scan.scan_pending() == 0


def test_the_scan_notes_the_language_of_each_tool_and_follows_new_versions():
    german = "Legt für einen Kunden eine neue Rechnung an und gibt ihre Nummer zurück."
    tool = make_tool(make_signature("make_bill", description=INVOICE * 3))
    short = make_tool(make_signature("short", description="Rechnung", inputs=()))
    scan.scan_pending()
    assert ToolTexts.objects.get(tool=tool).language == "en"
    assert ToolTexts.objects.get(tool=short).language == ""
    make_version(tool, make_signature("make_bill", description=german))
    assert scan.scan_pending() == 1
    assert ToolTexts.objects.get(tool=tool).language == "de"


def test_the_second_of_two_editors_receives_the_text_of_the_first():
    start = etag(stored.translation_facts(None))
    write("Legt eine Rechnung an", expected=start)
    with pytest.raises(LateEditError) as late:
        write("Erstellt eine Rechnung", expected=start)
    assert late.value.differences[0].theirs == "Legt eine Rechnung an"
    write("Erstellt eine Rechnung", expected=late.value.state)
    assert Translation.objects.get().text == "Erstellt eine Rechnung"
    assert [entry.action for entry in AuditEntry.objects.order_by("pk")] == ["add", "edit"]


def test_many_translations_are_written_at_once_and_again_without_effect():
    texts = {digest_of(f"Text {number}"): f"Text auf Deutsch {number}" for number in range(50)}
    values = {"language": "de", "origin": TranslationOrigin.IMPORT, "actor": make_user()}
    assert stored.write_translations(texts, **values) == (50, 0, 0)
    assert stored.write_translations(texts, **values) == (0, 0, 50)
    texts[digest_of("Text 1")] = "Anders"
    assert stored.write_translations(texts, **values, replaces=False) == (0, 0, 50)
    assert stored.write_translations(texts, **values) == (0, 1, 49)
    assert AuditEntry.objects.filter(kind="translation").count() == 51


def test_a_text_of_a_model_stays_unconfirmed_until_a_person_saves_it():
    stored.write_translations(
        {digest_of(INVOICE): "Legt eine Rechnung an"},
        language="de",
        origin=TranslationOrigin.MODEL,
        actor=None,
        model="m",
    )
    assert not Translation.objects.get().is_confirmed
    row = write("Legt eine Rechnung an")
    assert (row.is_confirmed, row.origin) == (True, TranslationOrigin.MODEL)


@pytest.mark.parametrize(
    "text", ["", "  \n", "x" * (MAX_TRANSLATION + 1), "a\u202eb", "a\0b", "a\u200bb", "a\x1bb", "\ud83d"]
)
def test_a_text_that_cannot_be_read_is_refused(text):
    with pytest.raises(DomainError) as refusal:
        write(text)
    assert refusal.value.fields.keys() == {"text"}
    assert not Translation.objects.exists()


def test_markup_is_stored_as_text_and_french_spaces_become_ordinary_ones():
    assert write("<b>Nom\u00a0: client</b>\r\n", language="fr").text == "<b>Nom : client</b>"


def test_only_texts_with_letters_are_offered_once_each():
    same = [make_parameter(name, description="The customer") for name in ("a", "b")]
    empty = make_parameter("c", description="42 / 7")
    tool = make_tool(make_signature("one", description=INVOICE, inputs=(*same, empty)))
    texts = [row.text for row in stored.translate_tool(tool, "de")]
    assert [(text.member, text.name) for text in texts] == [("description", ""), ("input", "a")]
    assert stored.find_text(tool, digest_of("The customer")).label == "Input a"
    with pytest.raises(DomainError) as refusal:
        stored.find_text(tool, digest_of("42 / 7"))
    assert refusal.value.code == "unknown_text"


@pytest.mark.django_db(transaction=True)
def test_two_people_who_save_at_the_same_moment_do_not_overwrite_each_other():
    actors = [make_user("designer") for _ in range(8)]
    start, outcomes = etag(stored.translation_facts(None)), []
    barrier = threading.Barrier(len(actors))

    def save(actor) -> None:
        barrier.wait()
        try:
            write(f"Fassung von {actor}", actor=actor, expected=start)
            outcomes.append("saved")
        except LateEditError:
            outcomes.append("late")
        finally:
            connection.close()

    threads = [threading.Thread(target=save, args=[actor]) for actor in actors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["late"] * 7 + ["saved"]
    assert Translation.objects.count() == 1
    assert AuditEntry.objects.filter(kind="translation").count() == 1
