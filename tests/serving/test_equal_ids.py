"""Two teams use equal names, ids and idempotency keys everywhere, and neither meets the other's.

A unique key that a runtime can write has an owner in it. Each unique key of the product is looked at, so that
a new one cannot be forgotten.
"""

import uuid
from dataclasses import dataclass

import pytest
from django.apps import apps
from django.db.models import AutoField, F, Field, Model, UniqueConstraint
from rest_framework.test import APIClient

from catalog.models import Call, CallId
from execution.calls import call_keys
from execution.calls.call_keys import ClientCallId
from people import teams
from people.models import ApiKey, Role
from serving.stored_calls import find_calls_with_ids
from tests.factories import make_parameter, make_user
from tests.hostile_vendor import HostileVendor
from tests.serving.doors import DOORS, Ask
from tests.serving.test_calls import ANSWER, desk_with, runtime

pytestmark = pytest.mark.django_db(transaction=True)
INPUTS = (make_parameter("zip", max_length=5),)
RANDOM = "Pegboard chooses it at random"
KEYED = "a keyed digest with the owner in it"
PEOPLE = "people choose it, and one that is taken is refused with its reason"
DERIVED = "Pegboard derives it from the rows that it is about, or from what an administrator has set up"
# Unique keys without a reference to another row, nor the number of an agent or of a caller.
WITHOUT_OWNER = {
    "catalog.call.key": KEYED,
    "catalog.callid.key": KEYED,
    "catalog.picture.digest": DERIVED,
    "catalog.recordedsearch.one_search_per_day_and_words": DERIVED,
    "catalog.signin.state_digest": RANDOM,
    "catalog.vendor.one_home_of_definitions": DERIVED,
    "catalog.translation.one_translation_per_language": DERIVED,
    "catalog.vendor.one_live_vendor_per_slug": PEOPLE,
    "catalog.vendorrequest.one_waiting_request_per_address": PEOPLE,
    "catalog.activity.one_live_activity_per_name": PEOPLE,
    "designer.agent.one_live_agent_per_slug": PEOPLE,
    "designer.agentaddress.slug": PEOPLE,
    "designer.signingkey.public": RANDOM,
    "notifications.notice.one_waiting_notice_per_subject": DERIVED,
    "people.apikey.digest": RANDOM,
    "people.erasedentry.one_row_per_erased_entry": DERIVED,
    "people.idempotentwrite.id": RANDOM,
    "people.identity.one_person_per_subject": DERIVED,
    "people.team.one_live_team_per_slug": PEOPLE,
    "people.team.one_team_of_everyone": DERIVED,
    "people.user.one_user_per_name": PEOPLE,
    "people.user.username": PEOPLE,
}
OURS = ("people", "catalog", "notifications", "designer", "execution", "serving")
# Columns with the number of a row in a package above, or with the owner in its text.
OWNING_COLUMNS = {"agent", "caller", "node"}


@dataclass
class Team:
    slug: str
    client: APIClient
    key: ApiKey


@pytest.fixture
def vendor():
    with HostileVendor(ANSWER) as running:
        yield running


def make_team(vendor, name: str) -> Team:
    owner = make_user(Role.DESIGNER, username=name)
    team = teams.create_team(name=f"Team {name}", actor=make_user(Role.ADMIN))
    teams.add_member(team, owner, actor=make_user(Role.ADMIN))
    agent, _ = desk_with(owner, vendor, slug=f"desk-{name}", team=team, inputs=INPUTS)
    return Team(agent.slug, runtime(owner, agent), ApiKey.objects.latest("pk"))


@pytest.fixture
def two_teams(vendor):
    return make_team(vendor, "ada"), make_team(vendor, "bob")


def our_models() -> list[type[Model]]:
    return [model for model in apps.get_models() if model._meta.app_label in OURS]


def is_owning(field: Field) -> bool:
    return field.is_relation or field.name in OWNING_COLUMNS


def unique_keys(model: type[Model]) -> dict[str, bool]:
    """By its label, whether a unique key has an owner. Numbers that the database gives are left out, and so
    are primary keys that Pegboard chooses at random."""
    meta, keys = model._meta, {}
    for field in meta.concrete_fields:
        is_chosen_here = field.primary_key and (field.has_default() or isinstance(field, AutoField))
        if field.unique and not is_chosen_here and not hasattr(field, "_composite"):
            keys[f"{meta.label_lower}.{field.name}"] = is_owning(field)
    for constraint in meta.constraints:
        if isinstance(constraint, UniqueConstraint):
            names = {*constraint.fields, *names_in(constraint.expressions)}
            owning = any(is_owning(meta.get_field(name)) for name in names)
            keys[f"{meta.label_lower}.{constraint.name}"] = owning
    return keys


def names_in(expressions) -> set[str]:
    names = {expression.name for expression in expressions if isinstance(expression, F)}
    inner = [
        expression.get_source_expressions() for expression in expressions if not isinstance(expression, F)
    ]
    return names.union(*map(names_in, inner))


def test_every_unique_key_has_an_owner_or_a_reason():
    keys = {label: owned for model in our_models() for label, owned in unique_keys(model).items()}
    assert len(keys) > 70
    assert {label for label, has_owner in keys.items() if not has_owner} == set(WITHOUT_OWNER)


def test_teams_with_equal_ids_do_not_meet(two_teams, vendor):
    before = {model: model.objects.count() for model in our_models() if hasattr(model, "objects")}
    for door in DOORS:
        for team in two_teams:
            reply = door.ask(team.client, Ask(slug=team.slug, id=f"{door.name} 1", arguments={"zip": "0150"}))
            assert reply.said.startswith("200"), (door.name, reply)
    client_id = str(uuid.uuid4())
    for team in two_teams:
        root = f"/api/v1/agents/{team.slug}/releases/live"
        by_id = {"arguments": {"zip": "0150"}, "id": client_id}
        assert team.client.post(f"{root}/tools/sky/invoke/", by_id).json()["outcome"] == "ok"
        calls = [{"tool": "sky", "arguments": {"zip": "0150"}}] * 2
        headers = {"Idempotency-Key": "turn-1"}
        results = team.client.post(f"{root}/calls/", {"calls": calls}, headers=headers).json()["results"]
        assert [row["answer"]["outcome"] for row in results] == ["ok", "ok"]
        run = {"metadata": {"call_id": "mark-1"}, "input": {"zip": "0150"}}
        agent_id = DOORS[3].request(Ask(slug=team.slug))[2]["agent_id"]
        waited = f"/serve/{team.slug}/live/acp/runs/wait"
        assert team.client.post(waited, run | {"agent_id": agent_id}).status_code == 200
    calls_by_team = {team.slug: Call.objects.filter(api_key=team.key) for team in two_teams}
    texts = [sorted(calls.values_list("idempotency_key", flat=True)) for calls in calls_by_team.values()]
    assert texts[0] == texts[1]
    assert len(texts[0]) == len(DOORS) + 4
    assert len(vendor.requests) == 2 * len(texts[0])
    changed_models = [model for model, count in before.items() if model.objects.count() > count]
    assert {Call, CallId} <= set(changed_models)
    keys_without_owner = [
        label for model in changed_models for label, has_owner in unique_keys(model).items() if not has_owner
    ]
    assert {WITHOUT_OWNER[label] for label in keys_without_owner} <= {KEYED, RANDOM, DERIVED}


def test_a_key_of_a_call_cannot_be_computed_from_its_id(two_teams):
    ada, bob = two_teams
    client_id = str(uuid.uuid4())
    for call_id in (client_id, "turn-1"):
        answer = sent_by(ada, {"arguments": {"zip": "0150"}, "idempotency_key": call_id})
        call = Call.objects.get(pk=answer["call"])
        assert answer["idempotency_key"] == call.idempotency_key == call_id
        guesses = {uuid.uuid5(uuid.NAMESPACE_OID, f"{ada.key.pk}/{call_id}"), uuid.uuid5(call.key, call_id)}
        assert call.key not in {*guesses, uuid.UUID(client_id)}
        own_calls = find_calls_with_ids(
            [ClientCallId(call_id)], Call.objects.all(), actor=ada.key.user, key=ada.key
        )
        assert own_calls.get() == call
        of_bob = find_calls_with_ids(
            [ClientCallId(call_id)], Call.objects.all(), actor=bob.key.user, key=bob.key
        )
        assert not of_bob.exists()


@pytest.mark.parametrize("member", ["id", "idempotency_key"])
def test_ids_of_the_release_before_count_for_their_owner_alone(two_teams, vendor, member):
    ada, bob = two_teams
    client_id = str(uuid.uuid4()) if member == "id" else "turn-1"
    body = {"arguments": {"zip": "0150"}, member: client_id}
    first = sent_by(ada, body)["call"]
    give_earlier_key(first, ClientCallId(client_id), ada)
    assert (sent_by(ada, body)["call"], len(vendor.requests)) == (first, 1)
    assert sent_by(ada, body | {"arguments": {"zip": "9"}})["code"] == "key_taken"
    of_bob = sent_by(bob, body)
    assert (of_bob["outcome"], of_bob["call"] == first, len(vendor.requests)) == ("ok", False, 2)
    Call.objects.filter(pk=first).delete()
    assert sent_by(ada, body)["code"] == "call_forgotten"


def test_a_batch_of_the_release_before_is_not_run_again(two_teams, vendor):
    ada, bob = two_teams
    calls = {"calls": [{"tool": "sky", "arguments": {"zip": "0150"}}]}

    def send_batch(team: Team) -> int:
        path = f"/api/v1/agents/{team.slug}/releases/live/calls/"
        answer = team.client.post(path, calls, headers={"Idempotency-Key": "turn-1"})
        return answer.json()["results"][0]["answer"]["call"]

    first = send_batch(ada)
    give_earlier_key(first, ClientCallId("turn-1", call_keys.batch_part(0)), ada)
    assert (send_batch(ada), send_batch(bob) != first, len(vendor.requests)) == (first, True, 2)


def sent_by(team: Team, body: dict[str, object]) -> dict[str, object]:
    path = f"/api/v1/agents/{team.slug}/releases/live/tools/sky/invoke/"
    return team.client.post(path, body).json()


def give_earlier_key(call: int, call_id: ClientCallId, team: Team) -> None:
    """Store the call as the release before has written it."""
    key = call_keys.earlier_key(call_id, user=team.key.user_id, api_key=team.key.pk)
    rows = Call.objects.filter(pk=call)
    CallId.objects.filter(key=rows.get().key).update(key=key)
    rows.update(key=key, idempotency_key=None)
