import pytest

from designer.models import Tuning
from designer.pins import pins, tunings
from people.models import Role
from protocols.signature import AllowedValue
from tests.factories import make_agent, make_parameter, make_signature, make_tool, make_user, make_version
from tests.module_data import module_data
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db

INPUTS = (
    make_parameter("city"),
    make_parameter("days", type="int", required=False, description="How many days\r\nahead"),
    make_parameter(
        "units", type="enum", required=False, allowed_values=(AllowedValue("METRIC"), AllowedValue("US"))
    ),
)
# The editor's form without a touched box; a browser writes line ends as CR LF.
UNTOUCHED = {
    "version": "1",
    "description": "Tomorrow's weather\r\nfor a city",
    "description-0": "The city",
    "description-1": "How many days\r\nahead",
    "description-2": "The units",
    "preset-0": "",
    "preset-1": "",
    "preset-2": "",
}


@pytest.fixture
def designer():
    return signed_in(Role.DESIGNER)


@module_data
def pin():
    tool = make_tool(make_signature("forecast", description="Tomorrow's weather\nfor a city", inputs=INPUTS))
    return pins.pin_tool(make_agent(slug="desk", name="Desk"), actor=make_user(Role.DESIGNER), tool=tool)


def page_of(pin):
    return f"/agents/desk/pins/{pin.pk}/"


def test_vendor_and_own_words_stand_side_by_side(designer, pin):
    tunings.tune(pin, actor=make_user(Role.DESIGNER), description="Ask for the city first.")

    page = designer.get(page_of(pin))

    assert "Tomorrow's weather for a city" in text_of(page)
    assert page.context["form"]["description"].value() == "Ask for the city first."


def test_saving_untouched_words_tunes_nothing(designer, pin):
    designer.post(page_of(pin), UNTOUCHED)

    assert not Tuning.objects.exists()


def test_only_what_differs_is_kept(designer, pin):
    designer.post(
        page_of(pin),
        UNTOUCHED | {"description-0": "Ask for it", "hidden-1": "on", "preset-1": "3", "preset-2": "US"},
    )

    tuning = Tuning.objects.get(pin=pin)
    assert tuning.description is None
    assert tuning.parameters == {
        "city": {"description": "Ask for it"},
        "days": {"hidden": True, "preset": 3},
        "units": {"preset": "US"},
    }


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"description": ""}, "description"),
        ({"description-0": "  "}, "description-0"),
        ({"preset-1": "many"}, "preset-1"),
        ({"preset-2": "KELVIN"}, "preset-2"),
        ({"hidden-0": "on"}, "preset-0"),
    ],
)
def test_what_cannot_be_kept_is_explained_at_its_box(designer, pin, typed, field):
    page = designer.post(page_of(pin), UNTOUCHED | typed)

    assert page.context["form"].errors[field]
    assert not Tuning.objects.exists()


def test_words_typed_against_another_version_are_not_saved(designer, pin):
    make_version(pin.tool, make_signature("forecast", inputs=INPUTS))
    pins.move_pin(pin, actor=make_user(Role.DESIGNER), ordinal=2)

    page = designer.post(page_of(pin), UNTOUCHED | {"description": "Ours"})

    assert "changed the version" in text_of(page)
    assert not Tuning.objects.exists()


def test_a_second_editor_is_told_that_another_saved_meanwhile(designer, pin):
    opened = designer.get(page_of(pin)).context["form"].expected
    tunings.tune(pin, actor=make_user(Role.DESIGNER, name="Ada Berger"), description="Theirs")

    page = designer.post(page_of(pin), UNTOUCHED | {"description": "Ours", "expected": opened})

    assert page.status_code == 409
    assert "Ada Berger has changed this since you opened it" in text_of(page)
    assert "Ada Berger wrote Theirs You wrote Ours" in text_of(page)
    assert Tuning.objects.get().description == "Theirs"


def test_words_are_reverted_in_one_step_and_the_history_keeps_them(designer, pin):
    tunings.tune(pin, actor=make_user(Role.DESIGNER), description="Ours for a while")

    designer.post(f"{page_of(pin)}revert/")

    assert not Tuning.objects.exists()
    assert "Ours for a while" in text_of(designer.get(page_of(pin)))


@pytest.mark.parametrize(
    ("alias", "expected_text"),
    [
        ("look_ahead", "Available in all formats"),
        ("look ahead", "Try look_ahead"),
        ("Other", "Another tool of this agent has that name"),
        ("", "If empty, the vendor's name is used: forecast"),
    ],
)
def test_a_name_is_judged_while_it_is_typed(designer, pin, alias, expected_text):
    pins.pin_tool(pin.agent, actor=make_user(Role.DESIGNER), tool=make_tool(name="other"))

    assert expected_text in text_of(designer.get(f"{page_of(pin)}alias/", {"alias": alias}))


def test_a_tool_is_renamed_for_the_model(designer, pin):
    designer.post(f"{page_of(pin)}rename/", {"alias": "look_ahead"})

    pin.refresh_from_db()
    assert pin.name == "look_ahead"


def test_a_refused_name_says_why(designer, pin):
    response = designer.post(f"{page_of(pin)}rename/", {"alias": "no spaces"}, follow=True)

    assert "A name starts with a letter" in text_of(response)


def test_a_move_is_previewed_before_it_is_made(designer, pin):
    make_version(pin.tool, make_signature("forecast", inputs=INPUTS[1:]))

    page_text = text_of(designer.get(f"{page_of(pin)}preview/", {"ordinal": 2}))

    assert "Breaking for agents" in page_text
    assert "The input “city” was removed." in page_text


def test_a_preview_says_which_words_lose_their_place(designer, pin):
    tunings.tune(pin, actor=make_user(Role.DESIGNER), parameters={"city": {"description": "Ours"}})
    make_version(pin.tool, make_signature("forecast", inputs=INPUTS[1:]))

    assert "This version has no input “city”." in text_of(
        designer.get(f"{page_of(pin)}preview/", {"ordinal": 2})
    )


@pytest.mark.parametrize("ordinal", ["", "1", "99", "x"])
def test_a_preview_of_no_other_version_says_to_choose_one(designer, pin, ordinal):
    assert "Choose another version" in text_of(designer.get(f"{page_of(pin)}preview/", {"ordinal": ordinal}))


def test_a_pin_is_moved_from_the_list_of_upgrades(designer, pin):
    make_version(pin.tool, make_signature("forecast", inputs=INPUTS))
    assert "version 1 → 2" in text_of(designer.get("/agents/desk/upgrades/"))

    response = designer.post(f"{page_of(pin)}move/", {"ordinal": 2, "from": "upgrades"}, follow=True)

    assert response.context["upgrades"] == []


def test_a_move_to_nowhere_says_so(designer, pin):
    response = designer.post(f"{page_of(pin)}move/", {"ordinal": "x"}, follow=True)

    assert "has no version" in text_of(response)


def test_an_unpinned_tool_leaves_the_agent(designer, pin):
    designer.post(f"{page_of(pin)}remove/")

    assert "No tool pinned yet" in text_of(designer.get("/agents/desk/"))
    assert designer.get(page_of(pin)).status_code == 404


def test_a_pin_of_another_agent_is_not_found(designer, pin):
    make_agent(slug="other")

    assert designer.get(f"/agents/other/pins/{pin.pk}/").status_code == 404


def typed_on(page):
    """Return the fields that a browser submits for the unchanged form."""
    form = page.context["form"]
    values = {name: form[name].value() for name in form.fields}
    return {name: "on" if value is True else value for name, value in values.items() if value is not False}


def test_all_that_a_model_reads_is_on_the_page(designer, pin):
    typed = typed_on(designer.get(page_of(pin)))

    designer.post(
        page_of(pin),
        typed
        | {
            "title": "Weather",
            "name-0": "place",
            "value-description-2-0": "Degrees Celsius",
            "value-hidden-2-1": "on",
            "effect-read_only": "true",
        },
    )

    tuning = Tuning.objects.get(pin=pin)
    assert (tuning.title, tuning.effects) == ("Weather", {"read_only": True})
    assert tuning.parameters == {
        "city": {"name": "place"},
        "units": {"values": {"METRIC": {"description": "Degrees Celsius"}, "US": {"hidden": True}}},
    }
    again = designer.get(page_of(pin))
    designer.post(page_of(pin), typed_on(again))
    assert Tuning.objects.get(pin=pin).parameters == tuning.parameters


def test_a_page_says_whose_words_count_and_what_lies_below(designer, pin):
    ada = make_user(Role.DESIGNER)
    tunings.tune(pin.tool, actor=ada, description="For all", parameters={"city": {"description": "All's"}})
    tunings.tune(pin, actor=ada, description="For this agent")

    page = designer.get(page_of(pin))
    form = page.context["form"]

    assert "Your text (all agents) For all Vendor text Tomorrow's weather for a city" in text_of(page)
    assert 'id="id_description"' in page.content.decode()
    assert (form.tool_description.source, form.tool_description.below) == (
        "Your text (this agent)",
        [("Your text (all agents)", "For all"), ("Vendor text", "Tomorrow's weather\nfor a city")],
    )
    city = form.rows()[0].members["description"]
    assert (city.source, city.is_ours) == ("Your text (all agents)", False)
    assert form.rows()[1].members["description"].source == "Vendor text"


def test_an_earlier_state_is_restored_from_the_history(designer, pin):
    ada = make_user(Role.DESIGNER)
    tunings.tune(pin, actor=ada, description="First")
    first = tunings.history(pin).latest("pk")
    tunings.tune(pin, actor=ada, description="Second")

    page = designer.post(f"{page_of(pin)}restore/", {"entry": first.pk}, follow=True)

    assert "The text was restored." in text_of(page)
    assert Tuning.objects.get(pin=pin).description == "First"


def test_a_stale_text_is_shown_in_three_panes_and_settled(designer, pin):
    ada = make_user(Role.DESIGNER)
    tunings.tune(pin, actor=ada, description="Tomorrow's weather\nfor a city\nSay the country.")
    make_version(pin.tool, make_signature("forecast", description="The weather\nfor a city", inputs=INPUTS))
    pins.move_pin(pin, actor=ada, ordinal=2)

    page = text_of(designer.get(page_of(pin)))
    assert "Description stale Vendor text, before Tomorrow's weather for a city" in page
    assert "Both merged The weather for a city Say the country." in page
    designer.post(f"{page_of(pin)}settle/", {"member": "description", "take": "merged"})

    assert Tuning.objects.get(pin=pin).description == "The weather\nfor a city\nSay the country."
    assert "Vendor text, before" not in text_of(designer.get(page_of(pin)))
