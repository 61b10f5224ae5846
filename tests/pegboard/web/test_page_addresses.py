"""Addresses are those of Django's `{% url %}`."""

import pytest
from django.template import engines
from django.urls import NoReverseMatch, reverse


@pytest.mark.parametrize("slug", ["desk", "a-b"])
def test_an_address_is_the_one_that_django_builds(slug):
    page = engines["django"].from_string("{% url 'pin' slug pk %} {% url 'agent' slug as found %}{{ found }}")
    for pk in (7, 8, 7):
        addresses = [reverse("pin", args=[slug, pk]), reverse("agent", args=[slug])]
        assert page.render({"slug": slug, "pk": pk}) == " ".join(addresses)


def test_no_address_is_stored_for_arguments_that_match_no_page():
    page = engines["django"].from_string("{% url 'pin' slug pk %}")
    for _again in range(2):
        with pytest.raises(NoReverseMatch):
            page.render({"slug": "no such slug", "pk": 7})
    assert page.render({"slug": "desk", "pk": "7"}) == reverse("pin", args=["desk", 7])
