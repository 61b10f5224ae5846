"""Texts and lists of choices are rendered as Django renders them."""

import pytest
from django.forms import ChoiceField, Form
from django.forms.renderers import DjangoTemplates
from django.template import engines
from django.urls import NoReverseMatch, reverse
from django.utils.translation import override

from pegboard.web.form_fields import FieldRenderer


def render(text, **context):
    return engines["django"].from_string("{% load i18n %}" + text).render(context)


def test_a_constant_text_is_in_the_language_of_each_page():
    page = engines["django"].from_string('{% load i18n %}{% translate "Inputs" %}')
    shown = []
    for language in ("en", "de", "en"):
        with override(language):
            shown.append(page.render())
    assert shown[0] == shown[2] == "Inputs"
    assert shown[1] != "Inputs"


def test_a_text_is_stored_under_a_name_and_a_variable_is_escaped():
    assert render('{% translate "Inputs" as word %}[{{ word }}]') == "[Inputs]"
    assert render("{% translate word %}", word="<b>") == "&lt;b&gt;"
    assert render('{% translate "100 %" %}') == "100 %"


@pytest.mark.parametrize("value", ["b", "<i>", ""])
def test_a_list_of_choices_is_the_one_that_django_renders(value):
    choices = [("", "None"), ("b", "<b>"), ("Group", [("<i>", "“i”"), ("c", "C & D")])]

    class Choice(Form):
        tool = ChoiceField(choices=choices, required=True)

    def pieces(renderer):
        html = str(Choice(initial={"tool": value}, renderer=renderer)["tool"])
        return [line.strip() for line in html.splitlines() if line.strip()]

    assert pieces(FieldRenderer()) == pieces(DjangoTemplates())


def test_addresses_are_those_of_django():
    page = engines["django"].from_string("{% url 'pin' slug pk %} {% url 'agent' slug as found %}{{ found }}")
    for slug, pk in (("desk", 7), ("desk", 8), ("a-b", 7)):
        addresses = [reverse("pin", args=[slug, pk]), reverse("agent", args=[slug])]
        assert page.render({"slug": slug, "pk": pk}) == " ".join(addresses)
    with pytest.raises(NoReverseMatch):
        page.render({"slug": "no such slug", "pk": 7})
