import os

from django.core.wsgi import get_wsgi_application
from django.urls import reverse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pegboard.settings")

django_application = get_wsgi_application()
# They take models, which are there now.
from pegboard.web.chunked_bodies import ChunkedBodies  # noqa: E402
from pegboard.web.known_answers import KnownAnswers  # noqa: E402

application = KnownAnswers(ChunkedBodies(django_application))
# Imports all views, which Django leaves to the first request. The web server does it here once, before it
# forks; else the first caller of each of its processes waits for it.
reverse("healthz")
