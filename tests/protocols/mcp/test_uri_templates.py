"""The addresses that fit a URI template."""

import pytest

from protocols.mcp.uri_templates import MAX_URI_LENGTH, fits, is_template, variables


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("demo://dynamic/{id}", "demo://dynamic/7"),
        ("demo://dynamic/{id}", "demo://dynamic/a%20b"),
        ("demo://{kind}/{id}.json", "demo://books/7.1.json"),
        ("file:///{+path}", "file:///notes/a/b.md"),
        ("file://{/path*}", "file:///notes/a"),
        ("demo://list{?page,size}", "demo://list?page=2&size=10"),
        ("demo://list{?page,size}", "demo://list"),
        ("demo://list?x=1{&page}", "demo://list?x=1&page=2"),
        ("demo://doc{#part}", "demo://doc#two/three"),
        ("demo://a{.format}", "demo://a.json"),
        ("{id}", "7"),
    ],
)
def test_an_address_that_the_template_expands_to_fits(template, uri):
    assert is_template(template)
    assert fits(template, uri)


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("demo://dynamic/{id}", "demo://dynamic/"),
        ("demo://dynamic/{id}", "demo://dynamic/7/8"),
        ("demo://dynamic/{id}", "demo://dynamic/7?x=1"),
        ("demo://dynamic/{id}", "demo://dynamic/7#x"),
        ("demo://dynamic/{id}", "demo://other/7"),
        ("demo://dynamic/{id}", "xdemo://dynamic/7"),
        ("demo://dynamic/{id}", "demo://dynamic/a b"),
        ("demo://dynamic/{id}", "demo://dynamic/a\nb"),
        ("demo://list{?page}", "demo://listpage=2"),
        ("demo://{kind}/{id}", "demo://books"),
        ("{id}", "7" * (MAX_URI_LENGTH + 1)),
    ],
)
def test_another_address_does_not_fit(template, uri):
    assert not fits(template, uri)


@pytest.mark.parametrize("text", ["demo://a", "demo://{", "demo://{a}}", "demo://{}", "demo://{a b}", "{a}{"])
def test_what_is_no_template_is_told(text):
    assert not is_template(text)


def test_a_template_of_many_variables_is_matched_at_once():
    """It would take a regular expression for ever."""
    assert not fits("{a}-" * 40 + "!", "-" * MAX_URI_LENGTH)


def test_variables_are_named_in_their_order():
    assert variables("a://{shelf}/{+path:3}{?page,size*}") == ["shelf", "path", "page", "size"]
    assert variables("a://rules") == []
