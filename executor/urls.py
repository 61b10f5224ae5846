from django.urls import include, path

from executor import views

urlpatterns = [
    path("grants/", views.grant_list, name="grant-list"),
    path("grants/authorize/<slug:link>/", views.grant_authorize, name="grant-authorize"),
    path("grants/callback/", views.grant_callback, name="grant-callback"),
    path("grants/<uuid:grant>/forget/", views.grant_forget, name="grant-forget"),
    path("serve/", include("executor.serve.urls")),
    path("agents/<slug:slug>/releases/<int:number>/connect/", views.release_connect, name="release-connect"),
    path(
        "agents/<slug:slug>/releases/<int:number>/preflight/",
        views.release_preflight,
        name="release-preflight",
    ),
]
