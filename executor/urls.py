from django.urls import include, path

from executor import views

urlpatterns = [
    path("serve/", include("executor.serve.urls")),
    path("agents/<slug:slug>/releases/<int:number>/connect/", views.release_connect, name="release-connect"),
    path(
        "agents/<slug:slug>/releases/<int:number>/preflight/",
        views.release_preflight,
        name="release-preflight",
    ),
]
