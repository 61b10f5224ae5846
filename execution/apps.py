from django.apps import AppConfig


class ExecutionConfig(AppConfig):
    """An app for its tasks. The models that it works with are of the app `catalog`."""

    name = "execution"
