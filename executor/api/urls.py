from django.urls import path

from designer.api.urls import AGENT, PART
from executor.api import calls, grants, preflight

urlpatterns = [
    path("grants/", grants.GrantList.as_view(), name="api-grant-list"),
    path("grants/<uuid:grant>/", grants.GrantDetail.as_view(), name="api-grant"),
    path(
        f"{AGENT}releases/<str:number>/tools/<str:name>/invoke/",
        calls.ReleaseInvoke.as_view(),
        name="api-release-invoke",
    ),
    path(
        f"{PART}tools/<str:name>/invoke/",
        calls.ReleaseAgentInvoke.as_view(),
        name="api-release-agent-invoke",
    ),
    path(
        f"{AGENT}releases/<str:number>/preflight/",
        preflight.ReleasePreflight.as_view(),
        name="api-release-preflight",
    ),
    path(f"{AGENT}calls/<int:call>/", calls.AgentCall.as_view(), name="api-agent-call"),
    path(f"{AGENT}calls/<int:call>/cancel/", calls.AgentCallCancel.as_view(), name="api-agent-call-cancel"),
    path(f"{AGENT}calls/<int:call>/events/", calls.AgentCallEvents.as_view(), name="api-agent-call-events"),
    path(f"{AGENT}calls/<int:call>/resume/", calls.AgentCallResume.as_view(), name="api-agent-call-resume"),
    path("calls/<int:call>/", calls.RuntimeCall.as_view(), name="api-runtime-call"),
    path("calls/<int:call>/cancel/", calls.RuntimeCallCancel.as_view(), name="api-runtime-call-cancel"),
    path("calls/<int:call>/events/", calls.RuntimeCallEvents.as_view(), name="api-runtime-call-events"),
    path("calls/<int:call>/resume/", calls.RuntimeCallResume.as_view(), name="api-runtime-call-resume"),
]
