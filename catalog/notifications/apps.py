from importlib import import_module

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "catalog.notifications"
    label = "notifications"

    def ready(self) -> None:
        import_module("catalog.notifications.events").register()
