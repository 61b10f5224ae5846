"""Exports are byte-equal with and without translations."""

import pytest
from django.db import transaction

from catalog.models import Translation
from catalog.models.translations import TranslationOrigin
from catalog.translations import scan, stored, tool_texts
from core.errors import DomainError
from designer import exports
from designer.procedures import editing
from designer.releases import publishing
from people.models import Role
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool, make_user

pytestmark = pytest.mark.django_db


def make_pinned_agent(slug: str):
    agent = make_agent(slug=slug, name="Desk")
    inputs = (make_parameter("city", title="The place", description="The city to look at"),)
    for name in ("forecast", "history"):
        signature = make_signature(name, title="Weather", inputs=inputs, outputs=(make_parameter("sky"),))
        make_pin(agent, make_tool(signature, tool_id=name), name=name)
    editing.create_procedure(
        agent, actor=make_user(Role.DESIGNER), title="Look", body="Call forecast(), then history()."
    )
    return agent


def publish(agent, actor) -> tuple[str, dict[str, bytes]]:
    release = publishing.publish(agent, actor=actor, channel="live")
    exported = {fmt.name: publishing.export(release, fmt.name)[0] for fmt in exports.FORMATS}
    return release.digest, exported


def test_exports_and_digests_do_not_know_translations():
    actor = make_user(Role.DESIGNER)
    agent = make_pinned_agent("desk")
    with transaction.atomic():
        former = publish(agent, actor)
        transaction.set_rollback(True)
    tools = [pin.tool for pin in agent.pins.select_related("tool__current")]
    texts = {text.digest for tool in tools for text in tool_texts.texts_of(tool.current.decoded())}
    translations = dict.fromkeys(texts, "Ein deutscher Text")
    for language in ("de", "fr"):
        stored.write_translations(
            translations, language=language, origin=TranslationOrigin.IMPORT, actor=actor
        )
    scan.scan_pending()
    assert Translation.objects.count() == 2 * len(texts) >= 8
    digest, exported = publish(agent, actor)
    assert (digest, exported) == former
    assert len(exported) == len(exports.FORMATS) > 8
    assert not any(b"deutscher" in body for body in exported.values())
    # Neither does the draft differ from the release.
    stored.write_translations(translations, language="sv", origin=TranslationOrigin.IMPORT, actor=actor)
    with pytest.raises(DomainError) as refusal:
        publish(agent, actor)
    assert refusal.value.code == "nothing_changed"
