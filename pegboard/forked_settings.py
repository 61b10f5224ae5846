"""Settings of a process that is forked from one that has already read its settings."""

import os
from contextlib import suppress

from celery import current_app
from django.conf import settings
from django.db import connections

from pegboard.process_settings import process_settings


def read_again() -> None:
    """Give a forked process the settings of its own environment, before it connects to anything."""
    fresh = process_settings(os.environ)
    # Django's connections and this setting are one object.
    for alias, database in fresh.pop("DATABASES").items():
        settings.DATABASES[alias].update(database)
        with suppress(AttributeError):  # none was made
            del connections[alias]
    for name, value in fresh.items():
        setattr(settings, name, value)
    current_app.conf.broker_transport_options = fresh["CELERY_BROKER_TRANSPORT_OPTIONS"]
