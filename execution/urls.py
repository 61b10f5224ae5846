from django.urls import path

from execution.views import activities, endpoint_secrets, run_hints

urlpatterns = [
    path("activities/new/", activities.activity_new, name="activity-new"),
    path("activities/<int:pk>/change/", activities.activity_change, name="activity-change"),
    path("activities/<int:pk>/remove/", activities.activity_remove, name="activity-remove"),
    path("endpoints/<int:pk>/secrets/", endpoint_secrets.endpoint_secrets, name="endpoint-secrets"),
    path(
        "endpoints/<int:pk>/secrets/<uuid:secret>/forget/",
        endpoint_secrets.endpoint_secret_forget,
        name="endpoint-secret-forget",
    ),
    path(
        "endpoints/<int:pk>/providers/",
        endpoint_secrets.endpoint_provider_choose,
        name="endpoint-provider-choose",
    ),
    path("runs/hints/<uuid:key>/<slug:proof>/", run_hints.run_hint, name="run-hint"),
]
