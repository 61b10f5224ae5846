from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "catalog.notifications"
    label = "notifications"
