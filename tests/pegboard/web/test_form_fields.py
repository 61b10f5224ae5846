"""Fields are rendered as Django renders them."""

import pytest
from django import forms
from django.forms import ChoiceField, Form
from django.forms.renderers import DjangoTemplates

from pegboard.web.form_fields import FieldRenderer


@pytest.mark.parametrize("value", ["b", "<i>", ""])
def test_a_list_of_choices_is_the_one_that_django_renders(value):
    choices = [("", "None"), ("b", "<b>"), ("Group", [("<i>", "“i”"), ("c", "C & D")])]

    class Choice(Form):
        tool = ChoiceField(choices=choices, required=True)

    def pieces(renderer):
        html = str(Choice(initial={"tool": value}, renderer=renderer)["tool"])
        return [line.strip() for line in html.splitlines() if line.strip()]

    assert pieces(FieldRenderer()) == pieces(DjangoTemplates())


FIELDS = [
    forms.CharField(max_length=9, help_text="“Help”"),
    forms.CharField(widget=forms.Textarea(attrs={"rows": 4, "data-a": '<"&', "hidden": False})),
    forms.BooleanField(),
    forms.IntegerField(min_value=1000),
    forms.URLField(required=False, assume_scheme="https"),
    forms.CharField(widget=forms.HiddenInput),
    forms.CharField(widget=forms.PasswordInput(render_value=True)),
    forms.DateTimeField(required=False, widget=forms.DateTimeInput(attrs={"type": "datetime-local"})),
]


@pytest.mark.parametrize("value", ["b", "<i> \"C & D'", "", None, 0, 12345, True, "\n<b>"])
@pytest.mark.parametrize("number", range(len(FIELDS)))
def test_a_field_is_the_one_that_django_renders(number, value):
    class One(Form):
        field = FIELDS[number]

    for data in (None, {"field": str(value)}):
        html = {
            str(One(data, initial={"field": value}, renderer=renderer)["field"])
            for renderer in (FieldRenderer(), DjangoTemplates())
        }
        assert len(html) == 1, html
