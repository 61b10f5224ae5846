"""The manual gives the storage time of every table that grows."""

import re
from pathlib import Path

from django.apps import apps

OPERATIONS = Path(__file__).resolve().parent.parent / "docs" / "operations.md"
# The tables whose rows stay, by the reason.
STAYS = {
    "people make them, one by one": """
        people_user people_team people_membership people_identity people_apitoken
        catalog_vendor catalog_credential catalog_endpoint catalog_endpointdocument catalog_endpointsecret
        catalog_providerclient catalog_customwordgroup catalog_translation catalog_vendorrequest
        catalog_activity
        catalog_activityversion catalog_activitycallee catalog_example catalog_configuration catalog_grant
        catalog_sensitivevalues
        notifications_subscription notifications_mailaddress notifications_webhook
        designer_agent designer_agentvendor designer_agentaddress designer_transfer designer_keyagent
        designer_environment designer_binding designer_namedactivity designer_release designer_retirement
        designer_channel designer_channelmove designer_follow designer_webhookagent designer_pin
        designer_tuning designer_translationrun designer_hiddenguide
        designer_procedure designer_procedureversion designer_proceduredraft designer_procedurereference
        designer_proceduredraft_pins_made designer_rehearsal designer_rehearsaljudge
    """,
    "releases and pins refer to every version that a vendor has offered": """
        catalog_tool catalog_toolversion catalog_withdrawal
    """,
    "people decide about them, and later ones are compared with them": """
        catalog_finding catalog_otheranswer
    """,
    "one for each decision that waits, deleted when it is made": "catalog_waitingdecision",
    "belong to a release, which never changes": """
        designer_export designer_effectiveversion designer_releasesignature
    """,
    "one for each API key and release: they show which release a runtime uses": "designer_receipt",
    "one for each agent": """
        designer_draft designer_tokenlimit designer_mockassertions designer_rehearsalplan
    """,
    "one for each endpoint, tool or page of a list": """
        catalog_circuit catalog_toolcircuit catalog_toolfetch catalog_listfetch catalog_listeddocument
        catalog_toolpicture catalog_tooltexts catalog_knownpage catalog_likeness catalog_secondlook
    """,
    "one row, or one for each key": """
        people_audithead catalog_fingerprintkey designer_publishingkey designer_signingkey
    """,
    "part of the chain of the audit trail": "people_erasedentry",
    "Django makes them, and the pages of its admin change nothing": """
        auth_permission auth_group auth_group_permissions django_content_type django_admin_log
    """,
}


def rows_of(title: str) -> list[list[str]]:
    """The cells of the table below a heading of the manual, without its head."""
    section = OPERATIONS.read_text().split(f"\n### {title}\n")[1].split("\n#")[0]
    _, _, *lines = [line for line in section.splitlines() if "|" in line]
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def test_the_manual_says_how_long_the_rows_of_each_table_are_stored():
    stated = [name for cells in rows_of("Retention") for name in re.findall(r"`(\w+)`", cells[-1])]
    stays = [name for names in STAYS.values() for name in names.split()]
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    assert len(tables) > 80
    assert sorted([*stated, *stays]) == sorted(tables), (
        "each table once: in the manual, or above with its reason"
    )


# Columns that may contain the name or the address of a person, by their names.
MAY_NAME_A_PERSON = re.compile(
    r"user|person|owner|address|mail|subject|(^|_)name$|actor|label$|recipient|caller|session_data"
)
# Those that do not, by the reason.
NAMES_NO_PERSON = {
    "things that people name": """
        people_team.name
        catalog_vendor.name catalog_credential.name catalog_endpoint.name catalog_activity.name
        catalog_example.name catalog_configuration.name catalog_vendorrequest.vendor_name
        notifications_webhook.name
        designer_agent.name designer_transfer.name designer_environment.name designer_namedactivity.name
        designer_effectiveversion.dotted_name designer_channel.name designer_pin.name
        designer_rehearsaljudge.name
    """,
    "vendors state them": """
        catalog_endpointdocument.name catalog_tool.name catalog_toolversion.label catalog_endpointsecret.name
    """,
    "accounts of Pegboard at vendors": "catalog_secondlook.other_name",
    "a network address of a vendor": "catalog_vendorrequest.address catalog_toolpicture.address",
    "the number or the code of a thing": """
        catalog_finding.subject catalog_waitingdecision.subject notifications_notice.subject
        people_user.sessions_ended
    """,
    "Django's": "auth_permission.name auth_group.name django_content_type.app_label",
}


def test_the_manual_lists_every_column_that_names_a_person():
    columns = {
        f"{model._meta.db_table}.{field.column}"
        for model in apps.get_models(include_auto_created=True)
        for field in model._meta.concrete_fields
        if not field.is_relation
    }
    rows = [name for cells in rows_of("Personal data") for name in re.findall(r"`(\w+\.\w+)`", cells[1])]
    harmless = [name for names in NAMES_NO_PERSON.values() for name in names.split()]
    assert len(rows) == len(set(rows)) > 25
    assert {*rows, *harmless} <= columns, "each of them exists"
    suspects = {name for name in columns if MAY_NAME_A_PERSON.search(name.split(".")[1])}
    assert suspects <= {*rows, *harmless}
    assert not {*rows} & {*harmless}
