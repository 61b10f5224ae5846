"""Tunings from before they kept what they replaced are given it when an installation is upgraded."""

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from designer import tunings
from designer.models import Tuning
from designer.signatures.words import ParameterWords, Words
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool, make_version

INPUTS = (make_parameter("city"), make_parameter("days", type="int", required=False))
upgrade = import_module("designer.migrations.0017_widen_tunings").keep_replaced


@pytest.fixture
def tool(db):
    return make_tool(make_signature("forecast", description="Theirs", inputs=INPUTS))


def of_old(parameters, *, description=None, **target):
    """A row as the columns of that time held it; those that came later have what the database gives them."""
    row = Tuning.objects.create(description=description, parameters=parameters, **target)
    assert (row.title, row.outputs, row.effects, row.replaced) == (None, {}, {}, {})
    return row


def test_old_words_know_afterwards_what_they_replaced(tool):
    pin = make_pin(make_agent(), tool)
    spoken = {"city": {"description": "A town"}, "days": {"hidden": True, "preset": 3}}
    ours = of_old(spoken, description="Ours", pin=pin, against=tool.current)
    make_version(tool, make_signature("forecast", description="Theirs anew", inputs=INPUTS[:1]))
    # The version that it was written against counts, whatever the vendor says by now.
    silent = of_old({"days": {"hidden": True}}, tool=tool, against=tool.versions.get(ordinal=1))

    upgrade(apps, connection.schema_editor())

    ours.refresh_from_db()
    assert ours.replaced == {"description": "Theirs", "parameters": {"city": {"description": "The city"}}}
    assert ours.parameters == spoken
    assert tunings.replaced_of(ours).parameters["city"] == ParameterWords(description="The city")
    silent.refresh_from_db()
    assert tunings.replaced_of(silent) == Words()
    assert silent.parameters == {"days": {"hidden": True}}


def test_old_words_become_stale_like_new_ones(api, tool):
    of_old({}, description="Ours", tool=tool, against=tool.current)
    make_version(tool, make_signature("forecast", description="Theirs anew", inputs=INPUTS))
    assert api.get(f"/api/v1/tools/{tool.pk}/tuning/").json()["stale"] == [], "nothing to compare with"

    upgrade(apps, connection.schema_editor())

    (stale,) = api.get(f"/api/v1/tools/{tool.pk}/tuning/").json()["stale"]
    assert (stale["member"], stale["then"], stale["now"]) == ("description", "Theirs", "Theirs anew")


def test_words_about_an_input_that_the_old_version_lacks_are_left_as_they_are(tool):
    lost = of_old({"town": {"description": "A town"}}, tool=tool, against=tool.current)

    upgrade(apps, connection.schema_editor())

    lost.refresh_from_db()
    assert (lost.replaced, lost.parameters) == ({}, {"town": {"description": "A town"}})
