from django.apps import AppConfig


class ExecutionConfig(AppConfig):
    """The Django app with the tasks of calls. Its models are in the app `catalog`."""

    name = "execution"
