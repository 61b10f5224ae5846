"""Wiring of the product: settings, URLs, Celery, gunicorn, and checks at the start. No rule of the product is
here.
"""

from pegboard.celery import app as celery_app

__all__ = ["celery_app"]
