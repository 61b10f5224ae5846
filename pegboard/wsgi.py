import os

from django.core.wsgi import get_wsgi_application
from django.urls import reverse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pegboard.settings")

pages = get_wsgi_application()
# They import models, which are loaded now.
from pegboard.web.chunked_bodies import ChunkedBodies  # noqa: E402
from serving.gateway.application import Gateway  # noqa: E402
from serving.gateway.handler import ProgramHandler  # noqa: E402

application = ChunkedBodies(Gateway(ProgramHandler(), pages))
# Imports all views, which Django leaves to the first request. The web server does it here once, before it
# forks; else the first caller of each of its processes waits for it.
reverse("healthz")
