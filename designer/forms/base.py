from typing import Any

from django import forms
from django.db.models import QuerySet

COUNTED_TEXTAREA = {"data-counted": "", "rows": 4}


def offer(form: forms.Form, name: str, rows: QuerySet[Any]) -> None:
    """Offer the rows that this user may choose."""
    form.fields[name].queryset = rows  # type: ignore[attr-defined]
