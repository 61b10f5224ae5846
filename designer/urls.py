from django.urls import path

from designer.views import agents, home, pins, releases, tool_list, tools

urlpatterns = [
    path("", home.home, name="home"),
    path("theme/", home.theme, name="theme"),
    path("tools/", tool_list.tool_list, name="tool-list"),
    path("tools/pin/", tool_list.tool_pin_many, name="tool-pin-many"),
    path("tools/<int:pk>/", tools.tool, name="tool"),
    path("tools/<int:pk>/pin/", tools.tool_pin, name="tool-pin"),
    path("tools/<int:pk>/versions/", tools.tool_versions, name="tool-versions"),
    path("tools/<int:pk>/used-by/", tools.tool_usage, name="tool-usage"),
    path("tools/<int:pk>/findings/", tools.tool_findings, name="tool-findings"),
    path("tools/<int:pk>/tuning/", tools.tool_tuning, name="tool-tuning"),
    path("tools/<int:pk>/tuning/revert/", tools.tool_tuning_revert, name="tool-tuning-revert"),
    path("tools/<int:pk>/raw/", tools.tool_raw, name="tool-raw"),
    path("agents/", agents.agent_list, name="agent-list"),
    path("agents/<slug:slug>/", agents.agent, name="agent"),
    path("agents/<slug:slug>/edit/", agents.agent_edit, name="agent-edit"),
    path("agents/<slug:slug>/remove/", agents.agent_remove, name="agent-remove"),
    path("agents/<slug:slug>/upgrades/", pins.agent_upgrades, name="agent-upgrades"),
    path("agents/<slug:slug>/pins/<int:pk>/", pins.pin, name="pin"),
    path("agents/<slug:slug>/pins/<int:pk>/preview/", pins.pin_preview, name="pin-preview"),
    path("agents/<slug:slug>/pins/<int:pk>/move/", pins.pin_move, name="pin-move"),
    path("agents/<slug:slug>/pins/<int:pk>/alias/", pins.pin_alias, name="pin-alias"),
    path("agents/<slug:slug>/pins/<int:pk>/rename/", pins.pin_rename, name="pin-rename"),
    path("agents/<slug:slug>/pins/<int:pk>/revert/", pins.pin_revert, name="pin-revert"),
    path("agents/<slug:slug>/pins/<int:pk>/remove/", pins.pin_remove, name="pin-remove"),
    path("agents/<slug:slug>/releases/", releases.release_list, name="release-list"),
    path("agents/<slug:slug>/releases/<int:number>/", releases.release, name="release"),
]
