"""The web server keeps the index of its host current."""

import os

import pytest
from django.core.management import call_command

from catalog import search
from catalog.search import follower, index
from catalog.search.engines import current_engine
from core.priority import NICENESS
from tests.factories import make_endpoint, make_signature, make_tool

pytestmark = pytest.mark.django_db
# The priority is lowered just after the process has started.
PRINT_NICENESS = """
import os, pathlib, time
first, ends = os.nice(0), time.monotonic() + 10
while os.nice(0) == first and time.monotonic() < ends:
    time.sleep(0.01)
pathlib.Path(__file__).with_name("niceness").write_text(str(os.nice(0)))
"""


@pytest.fixture
def commands(monkeypatch):
    """The processes that the follower would have started."""
    started = []
    monkeypatch.setattr(follower, "_run_command", lambda *options: started.append(options))
    return started


def test_an_index_is_built_by_a_process_of_its_own(commands):
    make_tool()
    follower._catch_up()
    assert (commands, current_engine().open()) == ([("--missing",)], None)
    call_command("rebuild_search_index", "--missing")
    assert current_engine().open().document_count() == 1


def test_a_few_changes_are_indexed_at_once_and_many_by_a_process_of_its_own(commands, monkeypatch):
    endpoint = make_endpoint()
    search.index_pending()
    make_tool(make_signature("refill"), endpoint=endpoint)
    follower._catch_up()
    assert (commands, current_engine().open().document_count()) == ([], 1)
    monkeypatch.setattr(follower, "FEW_CHANGES", 1)
    for name in ("refund", "refuse"):
        make_tool(make_signature(name), endpoint=endpoint)
    follower._catch_up()
    assert (commands, current_engine().open().document_count()) == ([("--missing",)], 1)


def test_an_index_of_another_database_is_found_out_without_a_change(commands, monkeypatch):
    make_tool()
    search.index_pending()
    follower._catch_up()
    assert commands == []
    monkeypatch.setattr(follower.changes, "is_usable", lambda state, moment: False)
    follower._catch_up()
    assert commands == [("--missing",)]


def test_an_index_of_a_release_with_other_everyday_words_is_built_again_while_it_answers(
    commands, monkeypatch
):
    make_tool(make_signature("refill"))
    search.index_pending()
    monkeypatch.setattr(index, "current_recipe", lambda: "of the next release")
    follower._catch_up()
    assert commands == [()]
    assert index.index_state().filled_through is None
    call_command("rebuild_search_index")
    follower._catch_up()
    assert commands == [()]


def test_the_command_states_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(index, "BATCH", 2)
    for number in range(5):
        make_tool(make_signature(f"tool_{number}"))
    call_command("rebuild_search_index")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Indexing 2 of 5", "Indexing 4 of 5"]
    assert current_engine().open().document_count() == 5


def test_the_process_that_indexes_yields_to_requests(settings, tmp_path):
    settings.BASE_DIR = tmp_path
    (tmp_path / "manage.py").write_text(PRINT_NICENESS)
    follower._run_command()
    assert int((tmp_path / "niceness").read_text()) == min(os.nice(0) + NICENESS, 19)
