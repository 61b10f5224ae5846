"""Tools with more inputs than fit on a page: their texts have pages, and calls take the others as JSON."""

import json

import pytest

from catalog.models import Activity
from catalog.tools import sensitive_values
from designer.models import Tuning
from designer.pins import pins
from people.models import Role
from tests.factories import make_agent, make_parameter, make_signature, make_tool, make_user
from tests.module_data import module_data
from tests.pages import signed_in_as

pytestmark = pytest.mark.django_db

COUNT = 300


@module_data
def pinned():
    inputs = tuple(
        make_parameter(f"i{n}", description=f"Input {n}", required=n == COUNT - 1) for n in range(COUNT)
    )
    outputs = tuple(make_parameter(f"o{n}", description=f"Output {n}") for n in range(COUNT))
    tool = make_tool(make_signature("wide", inputs=inputs, outputs=outputs))
    designer = make_user(Role.DESIGNER)
    return designer, pins.pin_tool(make_agent(slug="desk", name="Desk"), actor=designer, tool=tool)


@pytest.mark.parametrize("side", ["inputs", "outputs"])
@pytest.mark.parametrize("address", ["/tools/{tool}/", "/tools/compare/?tool={tool}"])
def test_each_row_is_on_one_page_of_a_tool(pinned, side, address):
    designer, pin = pinned
    browser, url = signed_in_as(designer), address.format(tool=pin.tool_id)
    first, names = 1, []
    while first:
        page = browser.get(url, {"tool": pin.tool_id, side: first})
        rows = next(
            context["page"]
            for context in page.context
            if "page" in context and getattr(context["page"], "name", "") == side
        )
        assert (rows.first, rows.total) == (first, COUNT)
        names += [row.parameter.name if hasattr(row, "parameter") else row.name for row in rows]
        first = rows.next
    assert names == [f"{side[0]}{n}" for n in range(COUNT)]


def fields_of(form):
    return {"version": form["version"].value()} | {
        name: form[name].value() or "" for name in form.paths if form[name].value() not in (None, False)
    }


@pytest.mark.parametrize("address", ["/agents/desk/pins/{pin}/", "/tools/{tool}/tuning/"])
def test_texts_of_other_pages_stay(pinned, address):
    designer, pin = pinned
    browser, url = signed_in_as(designer), address.format(pin=pin.pk, tool=pin.tool_id)
    for number in (2, 100):
        page = browser.get(url, {"inputs": number + 1, "outputs": number + 1})
        fields = fields_of(page.context["form"]) | page.context["form"].page_query()
        fields |= {f"description-{number}": f"New {number}", f"output-hidden-{number}": "on"}
        saved = browser.post(url, fields)
        assert saved.status_code == 302
        assert (
            page.context["form"].page_query().items()
            <= dict(pair.split("=") for pair in saved.url.partition("?")[2].split("&") if pair).items()
        )

    tuning = Tuning.objects.get()
    assert tuning.parameters == {f"i{n}": {"description": f"New {n}"} for n in (2, 100)}
    assert tuning.outputs == {f"o{n}": {"hidden": True} for n in (2, 100)}


def test_required_inputs_have_fields_first_and_the_others_are_json(pinned):
    designer, pin = pinned
    page = signed_in_as(designer).get(f"/tools/{pin.tool_id}/try/")
    form = page.context["form"]
    rows = form.rows()
    assert rows[-1][0].name == f"i{COUNT - 1}"
    assert form.more_count == COUNT - len(rows) > 200


def test_values_of_inputs_without_a_field_are_in_the_json(pinned):
    designer, pin = pinned
    arguments = {"i250": "x", f"i{COUNT - 1}": "y"}
    example = pin.tool.examples.create(name="Far", arguments=arguments, created_by=designer)
    form = signed_in_as(designer).get(f"/tools/{pin.tool_id}/try/?example={example.pk}").context["form"]
    assert json.loads(form["json"].value()) == arguments


@pytest.mark.parametrize(("name", "is_saved"), [("i250", True), ("", True), ("other", False)])
def test_situation_of_an_input_that_is_entered(pinned, name, is_saved):
    designer, pin = pinned
    sent = {"act": "situation", "kind": "unavailable", "unavailable-input": name, "unavailable-like": "*"}
    reply = signed_in_as(designer).post(f"/agents/desk/mocks/{pin.pk}/", sent)
    assert reply.status_code == (302 if is_saved else 400)
    assert Activity.objects.exists() is is_saved


def test_marks_of_members_that_the_page_lists_stay(pinned):
    designer, pin = pinned
    sensitive_values.mark(pin.tool, actor=designer, inputs=["/i290"], outputs=[])
    page = signed_in_as(designer).get(f"/tools/{pin.tool_id}/tuning/")
    (_, _, members, more_count), _ = page.context["sensitive_members"]
    assert ("/i290", "", True) in members
    assert more_count == COUNT - len(members) > 200


def test_description_that_is_too_long_for_a_page_stays(pinned):
    designer, _ = pinned
    long_text = "word " * 2_000
    tool = make_tool(make_signature("long", inputs=(make_parameter("text", description=long_text),)))
    browser = signed_in_as(designer)
    form = browser.get(f"/tools/{tool.pk}/tuning/").context["form"]
    (row,) = form.rows()
    assert ("description" in row.members, row.effective_description) == (False, long_text)
    saved = browser.post(f"/tools/{tool.pk}/tuning/", fields_of(form) | {"hidden-0": "on", "preset-0": "x"})
    assert saved.status_code == 302, saved.context["form"].errors
    assert Tuning.objects.get().parameters == {"text": {"hidden": True, "preset": "x"}}
