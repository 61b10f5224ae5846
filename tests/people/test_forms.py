from core.errors import DomainError
from people.forms import PersonForm


def refused(message: str, **fields: str) -> PersonForm:
    form = PersonForm({})
    form.is_valid()
    form.errors.clear()
    form.refuse(DomainError("invalid", message, fields=fields))
    return form


def test_a_sentence_that_stands_at_its_field_is_not_said_above_too():
    form = refused("This name is taken.", username="This name is taken.")
    assert form.errors == {"username": ["This name is taken."]}


def test_a_sentence_of_its_own_stands_above_the_fields():
    form = refused("Please correct what is marked.", username="This name is taken.")
    assert form.non_field_errors() == ["Please correct what is marked."]
    assert form.errors["username"] == ["This name is taken."]


def test_a_sentence_about_a_field_that_is_not_shown_is_said_once_above():
    assert refused("Not that one.", slug="Not that one.").non_field_errors() == ["Not that one."]
    assert refused("Look again.", slug="Not that one.").non_field_errors() == ["Look again.", "Not that one."]
