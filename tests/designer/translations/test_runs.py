"""Translations by a model over real sockets, in the background."""

import json

import pytest
from django.utils import timezone

from catalog.models import Translation
from catalog.translations import scan, stored
from catalog.translations.tool_texts import ToolText, digest_of
from core.errors import DomainError
from designer.models import TranslationRun
from designer.rehearsals import judges
from designer.rehearsals.openai_chat import InvalidReplyError
from designer.tasks import translate
from designer.translations import chat, runs
from people.models import AuditEntry, Role
from tests.clients import signed_in
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user
from tests.hostile_vendor import HostileVendor, in_turn, json_reply, reply
from tests.pages import signed_in as signed_in_page
from tests.pages import text_of

pytestmark = pytest.mark.django_db
REST, PAGE = "/api/v1/translations/runs/", "/translations/"


@pytest.fixture(autouse=True)
def sent_tasks(monkeypatch):
    messages = []
    monkeypatch.setattr("celery.current_app.send_task", lambda name, args, **_: messages.append(name))
    return messages


def answer(values: object, line, request) -> None:
    content = values if isinstance(values, str) else json.dumps(values)
    json_reply({"choices": [{"message": {"role": "assistant", "content": content}}]})(line, request)


def translates(line, request):
    texts = json.loads(json.loads(request.body)["messages"][1]["content"])
    answer({key: f"Deutsch: {text}" for key, text in texts.items()}, line, request)


def make_judge(server):
    admin = make_user(Role.ADMIN)
    return judges.create(
        actor=admin, name=f"Big {server.url}", url=f"{server.url}/v1", model="big-1", seconds=2
    )


def start(server, vendor, **more) -> TranslationRun:
    values = {"language": "de", "vendor": vendor, "judge": make_judge(server)}
    return runs.start_run(actor=make_user(Role.DESIGNER), **values | more)


def work(run: TranslationRun) -> TranslationRun:
    TranslationRun.objects.filter(due_at__gt=timezone.now()).update(due_at=timezone.now())
    translate()
    run.refresh_from_db()
    return run


@pytest.fixture
def vendor():
    endpoint = make_endpoint()
    inputs = tuple(make_parameter(f"p{number}", description=f"Input {number}") for number in range(30))
    make_tool(make_signature("one", description="Lists birds", inputs=inputs), endpoint=endpoint)
    make_tool(make_signature("two", description="Lists fish", inputs=inputs[:1]), endpoint=endpoint)
    return endpoint.vendor


def test_a_run_translates_what_is_missing_in_small_requests(vendor):
    stored.write_translation(
        actor=make_user(), language="de", digest=digest_of("Lists birds"), text="Listet Vögel"
    )
    with HostileVendor(translates) as server:
        run = work(start(server, vendor))
    assert (run.status, run.message, run.tools_done, run.tool_count) == ("succeeded", "", 2, 2)
    assert (run.translated, len(server.requests)) == (31, 2)
    row = Translation.objects.get(digest=digest_of("Lists fish"))
    assert (row.text, row.origin, row.is_confirmed) == ("Deutsch: Lists fish", "model", False)
    assert (row.author_name, Translation.objects.get(digest=digest_of("Lists birds")).is_confirmed) == (
        "big-1",
        True,
    )
    assert AuditEntry.objects.filter(kind="translation", why=f"Translation run {run.pk}").count() == 31


def test_only_plain_text_of_a_model_is_stored(vendor):
    bad = {"1": "<img src=x onerror=a()>", "2": "a\u202eb", "3": "", "4": "x" * 500, "5": 7, "99": "Mehr"}

    def hostile(line, request):
        texts = json.loads(json.loads(request.body)["messages"][1]["content"])
        answer({key: f"Gut {key}" for key in texts} | bad, line, request)

    with HostileVendor(hostile) as server:
        run = work(start(server, vendor))
    assert run.status == "succeeded"
    texts = set(Translation.objects.values_list("text", flat=True))
    assert all(text.startswith("Gut") for text in texts)
    assert len(run.refused) + run.translated == 32
    assert len(run.refused) >= 5


def test_a_reply_that_is_no_translation_is_requested_again_and_then_the_run_fails(vendor):
    script = in_turn(lambda line, request: answer("I cannot do that.", line, request), translates)
    with HostileVendor(script) as server:
        run = work(start(server, vendor))
        assert (run.status, run.attempts) == ("queued", 1)
        assert "JSON" in run.message
        assert (work(run).status, run.translated, run.message) == ("succeeded", 32, "")
    with HostileVendor(reply(b"{}", status=500)) as server:
        run = start(server, make_tool(make_signature("x", description="Other text")).endpoint.vendor)
        for _ in range(4):
            work(run)
    assert (run.status, run.translated) == ("failed", 0)
    assert run.message


def test_a_refused_key_ends_the_run_at_once(vendor):
    with HostileVendor(reply(b"{}", status=401)) as server:
        run = work(start(server, vendor))
    assert (run.status, len(server.requests)) == ("failed", 1)


def test_a_run_that_is_cancelled_during_a_request_stores_nothing_of_it(vendor, monkeypatch):
    with HostileVendor(translates) as server:
        run = start(server, vendor)
        send = runs.request_chat

        def send_and_cancel(*request):
            reply = send(*request)
            runs.cancel_run(TranslationRun.objects.get(), actor=make_user())
            return reply

        monkeypatch.setattr(runs, "request_chat", send_and_cancel)
        assert work(run).status == "failed"
    assert (len(server.requests), Translation.objects.count()) == (1, 0)
    with pytest.raises(DomainError) as refusal:
        runs.cancel_run(run, actor=make_user())
    assert refusal.value.code == "translation_over"


def test_texts_that_are_in_the_language_already_are_not_sent():
    german = "Legt für einen Kunden eine neue Rechnung an und gibt ihre Nummer zurück."
    tool = make_tool(make_signature("german_one", description=german, inputs=()))
    scan.scan_pending()
    with HostileVendor(translates) as server:
        run = work(start(server, tool.endpoint.vendor))
    assert (run.status, run.tools_done, server.requests) == ("succeeded", 1, [])


def test_programs_start_follow_and_cancel_runs(vendor, sent_tasks, django_capture_on_commit_callbacks):
    client = signed_in(Role.DESIGNER)
    with HostileVendor(translates) as server:
        body = {"language": "de", "vendor": vendor.slug, "judge": str(make_judge(server).pk)}
        with django_capture_on_commit_callbacks(execute=True):
            made = client.post(REST, body, format="json")
        assert (made.status_code, made.json()["tool_count"]) == (202, 2)
        assert sent_tasks == [runs.TASK]
        again = client.post(REST, body, format="json")
        assert (again.status_code, again.json()["code"]) == (409, "translation_running")
        address = f"{REST}{made.json()['id']}/"
        assert client.delete(address).status_code == 204
        assert client.get(address).json()["status"] == "failed"
        assert client.delete(address).status_code == 409
        for wrong in ({"vendor": "nobody"}, {"language": "xx"}, {"judge": "0" * 32}):
            assert client.post(REST, body | wrong, format="json").status_code == 400
    assert len(client.get(REST).json()["results"]) == 1


def test_designers_start_and_follow_runs_on_the_page(vendor):
    client = signed_in_page(Role.DESIGNER)
    assert not client.get(PAGE).context["has_models"]
    with HostileVendor(translates) as server:
        body = {"language": "de", "vendor": vendor.slug, "judge": str(make_judge(server).pk)}
        assert client.post(f"{PAGE}runs/", body).status_code == 302
        page = client.get(PAGE)
        assert page.context["is_running"]
        assert "hx-trigger" in page.content.decode()
        run = work(TranslationRun.objects.get())
    page = client.get(PAGE)
    assert "2 of 2" in text_of(page)
    (row,) = page.context["languages"]
    assert (row["count"], row["unconfirmed"]) == (32, 32)
    assert client.post(f"{PAGE}runs/{run.pk}/cancel/").status_code == 409
    assert signed_in_page(Role.VIEWER).post(f"{PAGE}runs/", body).status_code == 403


@pytest.mark.parametrize(
    "document",
    [
        *(None, {}, {"choices": []}, {"choices": [{"message": {"content": None}}]}),
        {"choices": [{"message": {"content": "[1]"}}]},
        {"choices": [{"message": {"content": "[" * 100_000}}]},
    ],
)
def test_other_replies_are_not_read(document):
    with pytest.raises(InvalidReplyError):
        chat.parse_reply(document, [ToolText("title", "", "A", digest_of("A"))])


def test_a_fenced_answer_is_read():
    content = '```json\n{"1": "Vögel"}\n```'
    text = ToolText("title", "", "Birds", digest_of("Birds"))
    document = {"choices": [{"message": {"content": content}}]}
    assert chat.parse_reply(document, [text]) == {text.digest: "Vögel"}
