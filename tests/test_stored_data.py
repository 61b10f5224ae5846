"""The manual says of every table that grows for how long its rows are stored."""

import re
from pathlib import Path

from django.apps import apps

OPERATIONS = Path(__file__).resolve().parent.parent / "docs" / "operations.md"
# The tables whose rows stay, by the reason.
STAYS = {
    "people make them, one by one": """
        people_user people_team people_membership people_identity people_apitoken
        catalog_vendor catalog_credential catalog_endpoint catalog_endpointdocument catalog_endpointsecret
        catalog_providerclient catalog_vendorrequest catalog_activity catalog_activityversion
        catalog_activitycallee catalog_example catalog_configuration catalog_grant
        notifications_subscription notifications_mailaddress notifications_webhook
        designer_agent designer_agentvendor designer_agentaddress designer_transfer designer_keyagent
        designer_environment designer_binding designer_namedactivity designer_release designer_retirement
        designer_channel designer_channelmove designer_follow designer_webhookagent designer_pin
        designer_tuning
        designer_procedure designer_procedureversion designer_proceduredraft designer_procedurereference
        designer_proceduredraft_pins_made designer_rehearsal designer_rehearsaljudge
    """,
    "releases and pins refer to every version that a vendor has offered": """
        catalog_tool catalog_toolversion catalog_withdrawal
    """,
    "people decide about them, and later ones are compared with them": """
        catalog_finding catalog_otheranswer
    """,
    "belong to a release, which never changes": """
        designer_export designer_effectiveversion designer_releasesignature
    """,
    "one for each API key and release: they show which release a runtime uses": "designer_receipt",
    "one for each agent": """
        designer_draft designer_tokenlimit designer_mockassertions designer_rehearsalplan
    """,
    "one for each endpoint, tool or page of a list": """
        catalog_circuit catalog_toolcircuit catalog_toolfetch catalog_listfetch catalog_listeddocument
        catalog_knownpage catalog_likeness catalog_secondlook
    """,
    "as large as the catalog": """
        catalog_searchsegment catalog_searchdocument catalog_searchlexeme catalog_searchword
        catalog_searchposting
    """,
    "one row, or one for each key": """
        people_audithead catalog_fingerprintkey designer_publishingkey designer_signingkey
    """,
    "Django makes them, and the pages of its admin change nothing": """
        auth_permission auth_group auth_group_permissions django_content_type django_admin_log
    """,
}


def rows_of(title: str) -> list[list[str]]:
    """The cells of the table below a heading of the manual, without its head."""
    section = OPERATIONS.read_text().split(f"\n### {title}\n")[1].split("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_manual_says_how_long_the_rows_of_each_table_are_stored():
    stated = [name for cells in rows_of("Retention") for name in re.findall(r"`(\w+)`", cells[-1])]
    stays = [name for names in STAYS.values() for name in names.split()]
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    assert len(tables) > 80
    assert sorted([*stated, *stays]) == sorted(tables), (
        "each table once: in the manual, or above with its reason"
    )
