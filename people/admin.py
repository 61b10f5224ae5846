"""Django's admin shows rows and changes none: changes go through the pages, where they are audited."""

import django.contrib.auth.admin  # noqa: F401 - offers groups, which mean nothing here
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db.models import Model
from django.http import HttpRequest

from people.models import ApiKey, AuditEntry, User


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # not generic at run time
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(User)
class UserAdmin(ReadOnlyAdmin):
    list_display = ["username", "name", "role", "is_active", "last_login"]
    list_filter = ["role", "is_active"]
    search_fields = ["username", "name"]
    exclude = ["password"]


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    list_display = ["name", "prefix", "user", "scopes", "created_at", "expires_at", "revoked_at"]
    list_select_related = ["user"]
    exclude = ["digest"]


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ["at", "actor_name", "action", "kind", "label"]
    show_full_result_count = False


admin.site.unregister(Group)
