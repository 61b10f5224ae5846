from django.urls import include, path

from serving import views
from serving.serve.views import protected_resource

urlpatterns = [
    path("grants/", views.grant_list, name="grant-list"),
    path("grants/authorize/<slug:link>/", views.grant_authorize, name="grant-authorize"),
    path("grants/callback/", views.grant_callback, name="grant-callback"),
    path("grants/<uuid:grant>/forget/", views.grant_forget, name="grant-forget"),
    path("serve/", include("serving.serve.urls")),
    path(
        ".well-known/oauth-protected-resource/serve/<path:path>",
        protected_resource,
        name="protected-resource",
    ),
    path("agents/<slug:slug>/threads/", views.agent_threads, name="agent-threads"),
    path("agents/<slug:slug>/threads/<uuid:thread>/", views.agent_thread, name="agent-thread"),
    path("agents/<slug:slug>/threads/<uuid:thread>/end/", views.agent_thread_end, name="agent-thread-end"),
    path("agents/<slug:slug>/releases/<int:number>/connect/", views.release_connect, name="release-connect"),
    path(
        "agents/<slug:slug>/releases/<int:number>/preflight/",
        views.release_preflight,
        name="release-preflight",
    ),
]
