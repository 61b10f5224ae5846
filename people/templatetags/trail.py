from django import template

from core.readable_changes import ReadableChange
from people.audit.readable_entries import read_entry
from people.models import AuditEntry

register = template.Library()


@register.filter
def readable_entry(entry: AuditEntry) -> list[ReadableChange]:
    return read_entry(entry)
