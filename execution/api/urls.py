from django.urls import path

from execution.api import activities, calls, configurations, endpoint_secrets, sensitive_values

urlpatterns = [
    path("activities/", activities.ActivityList.as_view(), name="api-activity-list"),
    path("activities/propose/", activities.ActivityPropose.as_view(), name="api-activity-propose"),
    path("activities/<int:pk>/", activities.ActivityDetail.as_view(), name="api-activity"),
    path(
        "activities/<int:pk>/versions/",
        activities.ActivityVersionList.as_view(),
        name="api-activity-version-list",
    ),
    path(
        "endpoints/<int:pk>/secrets/",
        endpoint_secrets.EndpointSecretList.as_view(),
        name="api-endpoint-secret-list",
    ),
    path(
        "endpoints/<int:pk>/secrets/<uuid:secret>/",
        endpoint_secrets.EndpointSecretDetail.as_view(),
        name="api-endpoint-secret",
    ),
    path(
        "endpoints/<int:pk>/providers/",
        endpoint_secrets.EndpointProviders.as_view(),
        name="api-endpoint-providers",
    ),
    path("tools/<int:pk>/invoke/", calls.ToolInvoke.as_view(), name="api-tool-invoke"),
    path("tools/<int:pk>/calls/", calls.CallList.as_view(), name="api-call-list"),
    path("tools/<int:pk>/calls/<int:call>/", calls.CallDetail.as_view(), name="api-call"),
    path("tools/<int:pk>/calls/<int:call>/show/", calls.CallShow.as_view(), name="api-call-show"),
    path("tools/<int:pk>/sensitive/", sensitive_values.SensitiveMembers.as_view(), name="api-sensitive"),
    path("tools/<int:pk>/calls/<int:call>/resume/", calls.CallResume.as_view(), name="api-call-resume"),
    path(
        "tools/<int:pk>/configurations/",
        configurations.ConfigurationList.as_view(),
        name="api-configuration-list",
    ),
    path(
        "tools/<int:pk>/configurations/<str:name>/",
        configurations.ConfigurationDetail.as_view(),
        name="api-configuration",
    ),
    path("tools/<int:pk>/examples/", calls.ExampleList.as_view(), name="api-example-list"),
    path("tools/<int:pk>/examples/<int:example>/", calls.ExampleDetail.as_view(), name="api-example"),
]
