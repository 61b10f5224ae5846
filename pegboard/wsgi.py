import os

from django.core.wsgi import get_wsgi_application
from django.urls import reverse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pegboard.settings")

django_application = get_wsgi_application()
from pegboard.web.known_answers import KnownAnswers  # noqa: E402 - it takes models, which are there now

application = KnownAnswers(django_application)
# Imports all views, which Django leaves to the first request. The web server does it here once, before it
# forks; else the first caller of each of its processes waits for it.
reverse("healthz")
