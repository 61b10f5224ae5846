from django.template import Context, Template
from django.utils import translation

SOURCE = '{% load i18n %}{% translate "Tools" %} {% translate text %} {% translate "Tools" as x %}{{ x }}'


def test_a_constant_text_follows_the_language_of_each_page():
    template = Template(SOURCE)
    pages = {}
    for language in ("en", "de", "en"):
        with translation.override(language):
            pages.setdefault(language, []).append(template.render(Context({"text": "Agents"})))
    assert pages["en"] == ["Tools Agents Tools"] * 2
    with translation.override("de"):
        words = {word: translation.gettext(word) for word in ("Tools", "Agents")}
    assert pages["de"] == [f"{words['Tools']} {words['Agents']} {words['Tools']}"]
    assert words["Agents"] != "Agents"


def test_a_context_and_a_filter_are_kept():
    source = '{% load i18n %}{% translate "Open" context "verb" %} {% translate "Tools"|upper %}'
    with translation.override("de"):
        expected = f"{translation.pgettext('verb', 'Open')} {translation.gettext('Tools').upper()}"
        assert Template(source).render(Context()) == expected
