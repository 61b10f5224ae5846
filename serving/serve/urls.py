"""Addresses below /serve/."""

from django.urls import path, register_converter

from serving.serve.views import serve


class AnyPath:
    """The path of a protocol below its root, which may be empty."""

    regex = ".*"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(AnyPath, "any")

RELEASE = "<slug:slug>/<str:number>/"
# Before the others, which would match “agents” as the name of a protocol.
urlpatterns = [
    path(f"{RELEASE}agents/<slug:sub>/<slug:protocol>", serve, name="serve-agent"),
    path(f"{RELEASE}agents/<slug:sub>/<slug:protocol>/<any:path>", serve, name="serve-agent-below"),
    path(f"{RELEASE}<slug:protocol>", serve, name="serve"),
    path(f"{RELEASE}<slug:protocol>/<any:path>", serve, name="serve-below"),
]
