from django import template

from core.readable_changes import ReadableChange
from people.audit import words
from people.audit.readable_entries import read_entry, summarize_entry
from people.models import AuditEntry

register = template.Library()


@register.filter
def readable_entry(entry: AuditEntry) -> list[ReadableChange]:
    return read_entry(entry)


@register.filter
def action_name(entry: AuditEntry) -> str:
    return words.action_name(entry.action)


@register.filter
def kind_name(entry: AuditEntry) -> str:
    return words.kind_name(entry.kind_name)


@register.filter
def entry_summary(entry: AuditEntry) -> str:
    return " ".join(summarize_entry(entry))
