from django.urls import path

from designer.api import (
    agents,
    budgets,
    calls,
    channels,
    draft,
    keys,
    pins,
    procedures,
    provenance,
    releases,
    removals,
    teams,
    tools,
    transfers,
    tunings,
    upgrades,
)

AGENT = "agents/<slug:slug>/"
PROCEDURE = f"{AGENT}procedures/<slug:procedure>/"

urlpatterns = [
    path("agents/", agents.AgentList.as_view(), name="api-agent-list"),
    path(AGENT, agents.AgentDetail.as_view(), name="api-agent"),
    path(f"{AGENT}pins/", pins.PinList.as_view(), name="api-pin-list"),
    path(f"{AGENT}pins/<int:pk>/", pins.PinDetail.as_view(), name="api-pin"),
    path(f"{AGENT}pins/<int:pk>/tuning/", tunings.PinTuning.as_view(), name="api-pin-tuning"),
    path(f"{AGENT}pins/<int:pk>/move/", upgrades.PinMove.as_view(), name="api-pin-move"),
    path(f"{AGENT}pins/several/", pins.PinSeveral.as_view(), name="api-pin-several"),
    path(
        f"{AGENT}pins/<int:pk>/tuning/history/",
        tunings.PinTuningHistory.as_view(),
        name="api-pin-tuning-history",
    ),
    path(f"{AGENT}procedures/", procedures.ProcedureList.as_view(), name="api-procedure-list"),
    path(f"{AGENT}procedures/lint/", procedures.ProcedureLint.as_view(), name="api-procedure-lint"),
    path(f"{PROCEDURE}", procedures.ProcedureDetail.as_view(), name="api-procedure"),
    path(f"{PROCEDURE}versions/", procedures.ProcedureVersionList.as_view(), name="api-procedure-versions"),
    path(
        f"{PROCEDURE}versions/<int:number>/",
        procedures.ProcedureVersionDetail.as_view(),
        name="api-procedure-version",
    ),
    path(f"{PROCEDURE}restore/", procedures.ProcedureRestore.as_view(), name="api-procedure-restore"),
    path(f"{AGENT}transfers/", transfers.TransferList.as_view(), name="api-transfer-list"),
    path(f"{AGENT}transfers/<slug:child>/", transfers.TransferDetail.as_view(), name="api-transfer"),
    path(f"{AGENT}budget/", budgets.AgentBudget.as_view(), name="api-agent-budget"),
    path(f"{AGENT}upgrades/", upgrades.UpgradeList.as_view(), name="api-upgrade-list"),
    path(f"{AGENT}received/", provenance.AgentReceived.as_view(), name="api-agent-received"),
    path(f"{AGENT}draft/", draft.AgentDraft.as_view(), name="api-agent-draft"),
    path(f"{AGENT}channels/", channels.ChannelList.as_view(), name="api-channel-list"),
    path(f"{AGENT}channels/<str:channel>/", channels.ChannelDetail.as_view(), name="api-channel"),
    path(f"{AGENT}releases/", releases.ReleaseList.as_view(), name="api-release-list"),
    path(f"{AGENT}releases/<str:number>/", releases.ReleaseDetail.as_view(), name="api-release"),
    path(f"{AGENT}releases/<str:number>/diff/", releases.ReleaseDiff.as_view(), name="api-release-diff"),
    path(f"{AGENT}releases/<str:number>/tools/", releases.ReleaseTools.as_view(), name="api-release-tools"),
    path(
        f"{AGENT}releases/<str:number>/procedures/",
        releases.ReleaseProcedures.as_view(),
        name="api-release-procedures",
    ),
    path(
        f"{AGENT}releases/<str:number>/procedures/<slug:procedure>/",
        releases.ReleaseProcedure.as_view(),
        name="api-release-procedure",
    ),
    path(
        f"{AGENT}releases/<str:number>/bundle/", releases.ReleaseBundle.as_view(), name="api-release-bundle"
    ),
    path("keys/", keys.KeyList.as_view(), name="api-key-list"),
    path("keys/<int:pk>/", keys.KeyDetail.as_view(), name="api-key"),
    path(
        f"{AGENT}releases/<str:number>/tools/<str:name>/invoke/",
        calls.ReleaseInvoke.as_view(),
        name="api-release-invoke",
    ),
    path(f"{AGENT}calls/<int:call>/", calls.AgentCall.as_view(), name="api-agent-call"),
    path(f"{AGENT}calls/<int:call>/resume/", calls.AgentCallResume.as_view(), name="api-agent-call-resume"),
    path("vendors/<slug:slug>/use/", removals.VendorUse.as_view(), name="api-vendor-use"),
    path("endpoints/<int:pk>/use/", removals.EndpointUse.as_view(), name="api-endpoint-use"),
    path("teams/", teams.TeamList.as_view(), name="api-team-list"),
    path("teams/<slug:slug>/", teams.TeamDetail.as_view(), name="api-team"),
    path("teams/<slug:slug>/members/<str:username>/", teams.TeamMember.as_view(), name="api-team-member"),
    path("tools/<int:pk>/", tools.ToolDetail.as_view(), name="api-tool"),
    path("tools/<int:pk>/tuning/", tunings.ToolTuning.as_view(), name="api-tool-tuning"),
    path(
        "tools/<int:pk>/tuning/history/",
        tunings.ToolTuningHistory.as_view(),
        name="api-tool-tuning-history",
    ),
]
