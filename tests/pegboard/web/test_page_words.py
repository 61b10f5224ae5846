import pytest
from django.template import Context, Template
from django.utils import translation

from pegboard.web import page_words

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


def test_a_text_with_values_follows_the_language_of_each_page():
    block = "{% blocktranslate with more_count=many|add:1 %}{{ more_count }} more{% endblocktranslate %}"
    template = Template("{% load i18n %}" + block)
    for language in ("en", "de", "en"):
        with translation.override(language):
            expected = translation.gettext("%(more_count)s more") % {"more_count": 3}
            assert template.render(Context({"many": 2})) == expected
    with translation.override("de"):
        assert translation.gettext("%(more_count)s more") != "%(more_count)s more"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% blocktranslate %}{{ name }}, 100 %{% endblocktranslate %}", "&lt;a&gt;, 100 %"),
        ("{% blocktranslate %}[{{ missing }}]{% endblocktranslate %}", "[]"),
        ("{% blocktranslate trimmed %}\n  {{ name }}\n  b\n{% endblocktranslate %}", "&lt;a&gt; b"),
        (
            "{% blocktranslate with name=name|upper %}{{ name }}{% endblocktranslate %}{{ name }}",
            "&lt;A&gt;&lt;a&gt;",
        ),
        ("{% blocktranslate asvar x %}{{ name }}{% endblocktranslate %}{{ x }}", "&lt;a&gt;"),
        (
            "{% blocktranslate count c=2 %}one{% plural %}{{ c }} of {{ name }}{% endblocktranslate %}",
            "2 of &lt;a&gt;",
        ),
    ],
)
def test_a_text_with_values_reads_like_that_of_django(text, expected):
    context = {"name": "<a>"}
    assert Template("{% load i18n %}" + text).render(Context(context)) == expected


def test_a_translation_with_an_unknown_name_falls_back_to_the_text(monkeypatch):
    monkeypatch.setattr(page_words, "gettext", lambda text: text.replace("name", "nom"))
    monkeypatch.setattr(translation, "gettext", lambda text: text)
    template = Template("{% load i18n %}{% blocktranslate %}Hello {{ name }}{% endblocktranslate %}")
    assert template.render(Context({"name": "Ana"})) == "Hello Ana"


def test_a_context_and_a_filter_are_kept():
    source = '{% load i18n %}{% translate "Open" context "verb" %} {% translate "Tools"|upper %}'
    with translation.override("de"):
        expected = f"{translation.pgettext('verb', 'Open')} {translation.gettext('Tools').upper()}"
        assert Template(source).render(Context()) == expected
