"""A retry policy in REST. It has the same three members for endpoints, tools and pins."""

from typing import Any, get_args

from rest_framework import serializers

from catalog.rules import retries
from core.serializers import Input

_GIVE_UP_HELP = "How long a call may take with all of its attempts before the runtime hears that it failed."


class RetryChange(Input):
    """Null removes a member. A missing member does not change."""

    retry = serializers.ChoiceField(
        choices=list(retries.WHENS),
        required=False,
        allow_null=True,
        help_text=(
            "The calls that are sent again after a failure: none, those that are safe to repeat, or all."
        ),
    )
    give_up_after_seconds = serializers.IntegerField(
        min_value=1,
        max_value=retries.MAX_GIVE_UP_SECONDS,
        required=False,
        allow_null=True,
        help_text=_GIVE_UP_HELP,
    )
    attempts = serializers.IntegerField(
        min_value=1,
        max_value=retries.MAX_ATTEMPTS,
        required=False,
        allow_null=True,
        help_text="The maximum number of attempts of one call, the first included.",
    )


def nest_retry_members(values: dict[str, Any]) -> dict[str, Any]:
    """Return the input with the members of the retry policy nested in `retry`, as operations accept it."""
    members = {name: values[name] for name in retries.RetryPolicy.__struct_fields__ if name in values}
    others = {name: value for name, value in values.items() if name not in members}
    return others | ({"retry": members} if members else {})


class RetryStated(serializers.Serializer[Any]):
    """The members that are set at this level, null for others."""

    retry = serializers.ChoiceField(
        source="retry.retry", choices=list(retries.WHENS), default=None, allow_null=True, read_only=True
    )
    give_up_after_seconds = serializers.IntegerField(
        source="retry.give_up_after_seconds", default=None, allow_null=True, read_only=True
    )
    attempts = serializers.IntegerField(
        source="retry.attempts", default=None, allow_null=True, read_only=True
    )


class StatedByOutput(serializers.Serializer[Any]):
    stated_by = serializers.ChoiceField(
        choices=get_args(retries.Level),
        help_text="The source of the rule: the first of these that states one.",
    )


class RetryWhenOutput(StatedByOutput):
    value = serializers.ChoiceField(choices=list(retries.WHENS))


class RetryNumberOutput(StatedByOutput):
    value = serializers.IntegerField()


class WhenItFailsOutput(serializers.Serializer[Any]):
    """The policy that counts, member by member."""

    retry = RetryWhenOutput()
    give_up_after_seconds = RetryNumberOutput()
    attempts = RetryNumberOutput()


def when_it_fails(resolved: retries.ResolvedRetryPolicy) -> dict[str, Any]:
    return {
        name: {"value": getattr(resolved.policy, name), "stated_by": level}
        for name, level in resolved.levels.items()
    }
