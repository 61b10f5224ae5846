import os

from django.core.wsgi import get_wsgi_application
from django.urls import reverse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pegboard.settings")

pages = get_wsgi_application()
# They import models, which are loaded now.
from serving.gateway.application import Gateway, ProgramHandler  # noqa: E402

application = Gateway(ProgramHandler(), pages)
# Imports all views, which Django leaves to the first request. The web server does it here once, before it
# forks; else the first caller of each of its processes waits for it.
reverse("healthz")
