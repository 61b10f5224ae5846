import csv
import io

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Translation
from catalog.translations import exchange, files, stored
from catalog.translations.files import FileFormat
from catalog.translations.tool_texts import digest_of
from core.errors import DomainError
from people.audit import verify
from people.models import AuditEntry
from tests.factories import make_parameter, make_signature, make_tool, make_user

pytestmark = pytest.mark.django_db
FORMULA, BELL = "=HYPERLINK(1) makes a link", "Rings the bell\x07 & <b>stops</b>\r\n]]>"
XLIFF = '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">'


def make_catalog() -> None:
    inputs = (make_parameter("city", description=FORMULA), make_parameter("bell", description=BELL))
    make_tool(make_signature("one", description="Tomorrow's weather", inputs=inputs))
    make_tool(make_signature("two", description="Tomorrow's weather", inputs=()))


def read(body: str | bytes, name: str = "csv"):
    content = body.encode() if isinstance(body, str) else body
    return files.import_file(content, FileFormat(name), actor=make_user("designer"), language="de")


def unit(source: str, target: str, name: str = "u1") -> str:
    return f'<unit id="{name}"><segment><source>{source}</source><target>{target}</target></segment></unit>'


@pytest.mark.parametrize("name", FileFormat.values)
def test_an_exported_file_is_imported_again_without_effect(name):
    make_catalog()
    texts = {"Tomorrow's weather": "Wetter von morgen", FORMULA: "=Verweis", BELL: "Läutet\n<b>&amp;</b>"}
    for source, text in texts.items():
        stored.write_translation(actor=make_user(), language="de", digest=digest_of(source), text=text)
    content = files.export_file("de", FileFormat(name))
    assert read(content, name) == ((0, 0, 3), [])
    Translation.objects.all().delete()
    assert read(content, name) == ((3, 0, 0), [])
    assert {row.digest: row.text for row in Translation.objects.all()} == {
        digest_of(source): text for source, text in texts.items()
    }
    assert files.export_file("de", FileFormat(name), only_missing=True).count("Tomorrow") == 0


def test_cells_that_spreadsheets_would_run_are_guarded():
    make_catalog()
    rows = list(csv.DictReader(io.StringIO(files.export_file("de", FileFormat.CSV))))
    assert [row["source"] for row in rows] == ["Tomorrow's weather", f"'{FORMULA}", BELL]
    assert rows[1]["digest"] == digest_of(FORMULA)


def test_a_file_of_ones_own_finds_texts_by_their_source():
    assert read("source;translation\r\nWeather;Wetter\r\n") == ((1, 0, 0), [])
    assert read(f"{XLIFF}<file id='f'>{unit('Wind', 'Brise')}</file></xliff>", "xliff") == ((1, 0, 0), [])
    assert {row.digest for row in Translation.objects.all()} == {digest_of("Weather"), digest_of("Wind")}
    assert {entry.why for entry in AuditEntry.objects.all()} == {
        f"Imported as {FileFormat.CSV.label}",
        "Imported as XLIFF",
    }


def test_each_bad_line_has_an_error_and_the_others_are_imported():
    lines = [
        "digest,language,source,translation",
        ",de,Weather,Wetter",
        ",fr,Wind,Vent",
        "abc,de,Rain,Regen",
        ",de,Snow,Sch\u202enee",
        ",de,Hail,",
        ",de,Weather,Witterung",
        f",de,Storm,{'x' * 20_001}",
        ",de,Fog,<script>Nebel</script>",
    ]
    counts, problems = read("\n".join(lines))
    assert counts == (2, 0, 0)
    assert [problem.line for problem in problems] == [3, 4, 5, 7, 8]
    body = "".join(
        f"\n{row}"
        for row in [
            unit("Weather", "Wetter"),
            unit("Wind", "<pc id='1'>Brise</pc>"),
            unit("Rain", "Re\u200bgen"),
            unit("Snow", ""),
            '<unit id="u"><segment><source>Hail</source></segment></unit>',
        ]
    )
    counts, problems = read(f"{XLIFF}<file id='f'>{body}</file></xliff>", "xliff")
    assert counts == (0, 0, 1)
    assert [problem.line for problem in problems] == [3, 4]


def test_what_comes_before_broken_xml_is_imported():
    counts, problems = read(f"{XLIFF}<file id='f'>{unit('Wind', 'Brise')}\n<unit & >", "xliff")
    assert (counts.added, [problem.line for problem in problems]) == (1, [2])


ENTITY = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no xml",
        "<xliff/>",
        f"{ENTITY}{XLIFF}<file id='f'>{unit('Wind', '&b;')}</file></xliff>",
        '<!DOCTYPE xliff SYSTEM "http://127.0.0.1:1/x.dtd"><xliff/>',
        XLIFF.replace('"de"', '"fr"') + "</xliff>",
        XLIFF.replace('"2.0" src', '"1.2" src') + "</xliff>",
        XLIFF + "<a>" * 60,
        b"\xff\xfe\x00",
        '<?xml version="1.0" encoding="shift_jis"?><xliff/>',
        '<?xml version="1.0" encoding="no-such-encoding"?><xliff/>',
    ],
)
def test_a_file_that_is_no_xliff_is_refused_as_a_whole(body):
    with pytest.raises(DomainError) as refusal:
        read(body, "xliff")
    assert (refusal.value.code, refusal.value.fields.keys()) == ("invalid_file", {"file"})
    assert not Translation.objects.exists()


@pytest.mark.parametrize("body", ["", "a,b\n1,2", b"\xff\xfe", "translation\nWetter", "\0,\0"])
def test_a_file_without_the_columns_is_refused_as_a_whole(body):
    with pytest.raises(DomainError) as refusal:
        read(body)
    assert refusal.value.code == "invalid_file"


def test_entities_without_a_document_type_are_not_expanded():
    counts, problems = read(f"{XLIFF}<file id='f'>{unit('Wind', '&b;')}</file></xliff>", "xliff")
    assert (counts.added, len(problems)) == (0, 1)


def test_the_size_and_the_number_of_texts_are_limited(monkeypatch):
    make_catalog()
    monkeypatch.setattr(files, "MAX_ROWS", 2)
    monkeypatch.setattr(exchange, "MAX_ROWS", 2)
    rows = "source,translation\n" + "".join(f"Text {number},Wort\n" for number in range(3))
    for act in (lambda: read(rows), lambda: files.export_file("de", FileFormat.CSV)):
        with pytest.raises(DomainError) as refusal:
            act()
        assert refusal.value.status == 413
    with pytest.raises(DomainError) as refusal:
        read(b"x" * (files.MAX_FILE_BYTES + 1))
    assert refusal.value.status == 413
    assert not Translation.objects.exists()


def test_control_characters_of_a_vendor_do_not_break_the_file():
    make_catalog()
    content = files.export_file("de", FileFormat.XLIFF)
    assert '<cp hex="0007"/>' in content
    assert digest_of(BELL) in content


def test_an_import_writes_its_audit_entries_in_few_statements_and_in_portions(monkeypatch):
    monkeypatch.setattr(stored, "PORTION", 200)
    texts = {digest_of(f"Text {number}"): f"Text {number} auf Deutsch" for number in range(500)}
    body = "digest,translation\n" + "".join(f"{digest},{text}\n" for digest, text in texts.items())
    actor = make_user("designer")
    with CaptureQueriesContext(connection) as queries:
        counts, problems = files.import_file(body.encode(), FileFormat.CSV, actor=actor, language="de")
    assert (counts, problems) == ((500, 0, 0), [])
    statements = [query["sql"] for query in queries]
    assert sum("people_auditentry" in sql for sql in statements) == 3
    assert sum("pg_advisory_xact_lock" in sql for sql in statements) == 3
    entries = AuditEntry.objects.filter(kind="translation", actor=actor, action="add").order_by("pk")
    assert [entry.after["text"] for entry in entries] == list(texts.values())
    row = Translation.objects.get(digest=digest_of("Text 7"))
    entry = entries.get(object_id=str(row.pk))
    assert (entry.label, entry.before, entry.why) == (str(row), None, "Imported as CSV")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    assert verify.verify().broken == ""
