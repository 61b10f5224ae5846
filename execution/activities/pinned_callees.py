"""The version of an activity that runs as a step of another.

The version of a caller runs the versions that were current when it was saved, whatever is edited later.
"""

from collections.abc import Collection, Iterable, Mapping

from catalog.models import Activity, ActivityCallee, ActivityVersion


def current_versions(activities: Collection[int]) -> dict[int, ActivityVersion]:
    """Return the newest version of each of these activities, by primary key, without removed activities."""
    if not activities:
        return {}
    rows = ActivityVersion.objects.filter(
        pk__in=Activity.objects.shared().filter(pk__in=activities).values("current")
    )
    return {row.activity_id: row for row in rows.select_related("activity", "interface")}


def record(caller: ActivityVersion, callees: Iterable[ActivityVersion]) -> None:
    ActivityCallee.objects.bulk_create(ActivityCallee(caller=caller, callee=callee) for callee in callees)


def recorded_versions(caller: ActivityVersion) -> set[int]:
    """Return the primary keys of the versions that this version runs."""
    return set(ActivityCallee.objects.filter(caller=caller).values_list("callee", flat=True))


def find_callees(activities: Mapping[int, Collection[int]]) -> dict[int, dict[int, ActivityVersion]]:
    """Return the version that runs for each activity that a version calls.

    activities: by the primary key of the calling version, the primary keys of the activities that it calls.
    A version without a record, which a process of an older release saved, runs the newest ones.
    Removed activities are left out.
    """
    keys_by_caller = {caller: set(keys) for caller, keys in activities.items() if keys}
    if not keys_by_caller:
        return {}
    rows = ActivityCallee.objects.filter(
        caller__in=keys_by_caller, callee__activity__in=Activity.objects.shared()
    )
    callees: dict[int, dict[int, ActivityVersion]] = {caller: {} for caller in keys_by_caller}
    for row in rows.select_related("callee__activity", "callee__interface"):
        callees[row.caller_id][row.callee.activity_id] = row.callee
    newest = current_versions(
        {key for caller, keys in keys_by_caller.items() for key in keys - callees[caller].keys()}
    )
    return {
        caller: {key: version for key in keys if (version := callees[caller].get(key) or newest.get(key))}
        for caller, keys in keys_by_caller.items()
    }
