from django.urls import path

from designer.api.urls import AGENT, PART
from serving.api import batches, call_events, calls, errors, grants, invoke, preflight, resume, threads

urlpatterns = [
    path("grants/", grants.GrantList.as_view(), name="api-grant-list"),
    path("grants/<uuid:grant>/", grants.GrantDetail.as_view(), name="api-grant"),
    path(
        f"{AGENT}releases/<str:number>/tools/<str:name>/invoke/",
        invoke.ReleaseInvoke.as_view(),
        name="api-release-invoke",
    ),
    path(
        f"{PART}tools/<str:name>/invoke/",
        invoke.ReleaseAgentInvoke.as_view(),
        name="api-release-agent-invoke",
    ),
    path(
        f"{AGENT}releases/<str:number>/tools/<str:name>/errors/",
        errors.ReleaseErrors.as_view(),
        name="api-release-errors",
    ),
    path(
        f"{PART}tools/<str:name>/errors/",
        errors.ReleaseAgentErrors.as_view(),
        name="api-release-agent-errors",
    ),
    path(f"{AGENT}releases/<str:number>/calls/", batches.ReleaseCalls.as_view(), name="api-release-calls"),
    path(
        f"{AGENT}releases/<str:number>/tools/<str:name>/threads/",
        threads.ReleaseThreads.as_view(),
        name="api-release-threads",
    ),
    path(
        f"{PART}tools/<str:name>/threads/",
        threads.ReleaseAgentThreads.as_view(),
        name="api-release-agent-threads",
    ),
    path(f"{AGENT}threads/", threads.AgentThreads.as_view(), name="api-agent-threads"),
    path(f"{AGENT}threads/<uuid:thread>/", threads.AgentThread.as_view(), name="api-agent-thread"),
    path(
        f"{AGENT}threads/<uuid:thread>/history/",
        threads.AgentThreadHistory.as_view(),
        name="api-agent-thread-history",
    ),
    path(
        f"{AGENT}releases/<str:number>/preflight/",
        preflight.ReleasePreflight.as_view(),
        name="api-release-preflight",
    ),
    path(f"{AGENT}calls/<int:call>/", calls.AgentCall.as_view(), name="api-agent-call"),
    path(f"{AGENT}calls/<int:call>/cancel/", calls.AgentCallCancel.as_view(), name="api-agent-call-cancel"),
    path(
        f"{AGENT}calls/<int:call>/events/",
        call_events.AgentCallEvents.as_view(),
        name="api-agent-call-events",
    ),
    path(f"{AGENT}calls/<int:call>/resume/", resume.AgentCallResume.as_view(), name="api-agent-call-resume"),
    path(f"{AGENT}calls/<int:call>/output/", calls.AgentCallOutput.as_view(), name="api-agent-call-output"),
    path("calls/", calls.RuntimeCalls.as_view(), name="api-runtime-calls"),
    path("calls/<int:call>/output/", calls.RuntimeCallOutputs.as_view(), name="api-runtime-call-output"),
    path("calls/<int:call>/", calls.RuntimeCall.as_view(), name="api-runtime-call"),
    path("calls/<int:call>/cancel/", calls.RuntimeCallCancel.as_view(), name="api-runtime-call-cancel"),
    path("calls/<int:call>/events/", call_events.RuntimeCallEvents.as_view(), name="api-runtime-call-events"),
    path("calls/<int:call>/resume/", resume.RuntimeCallResume.as_view(), name="api-runtime-call-resume"),
]
