"""Lists of choices are rendered as Django renders them."""

import pytest
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
