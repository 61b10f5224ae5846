from importlib import import_module

from django.apps import AppConfig


class DesignerConfig(AppConfig):
    name = "designer"

    def ready(self) -> None:
        import_module("designer.registrations")
