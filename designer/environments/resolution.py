"""Resolve which activity runs for a tool, by the three rules of “The Tool System” and an environment's
bindings. Pure.

https://github.com/idealic-ai/docs, rfc/02_agent_tools.md at 3c618b9, “Activity Resolution Strategy”.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from core.errors import DomainError
from core.outbound.errors import printable
from core.translatable import Wording
from core.translatable import mark as _

Runs = Literal["vendor", "activity", "latent", "nothing"]
Why = Literal["bound", "explicit", "vendor", "same_name", "no_activity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about one tool in one environment.

    is_there: the environment still exists.
    is_own: the tool is defined in Pegboard and has no vendor.
    activity: id of the bound activity; None if the model answers. Meaningless unless `is_bound`.
    explicit: the `_activity` of the definition, None if it has none.
    named: id of the live activity with that name, or with the tool's own name.
    version: id of the version that would run.
    name: the name by which an activity is looked up.
    is_recorded, is_replaced: a version was recorded for that name; it belongs to another activity now.
    unfit: why that version cannot run for this version of the tool, as a sentence.
    """

    is_there: bool = True
    is_own: bool = False
    is_bound: bool = False
    activity: int | None = None
    is_removed: bool = False
    explicit: str | None = None
    named: int | None = None
    version: int | None = None
    name: str = ""
    is_recorded: bool = False
    is_replaced: bool = False
    unfit: str = ""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The result. `activity` and `version` are ids; with a `fault` nothing runs.

    unrecorded_name: the name by which the activity was found, if no version is recorded for it yet.
    """

    runs: Runs
    why: Why
    activity: int | None = None
    explicit: str | None = None
    fault: DomainError | None = None
    version: int | None = None
    unrecorded_name: str = ""

    def activity_shown_to_model(self, name: str) -> str:
        """Return the `_activity` that a model sees for the tool with this name; "" if the model answers."""
        if self.runs == "latent":
            return ""
        # An activity that an environment binds replaces the activity with the tool's name.
        return self.explicit or name


VENDOR = Resolution("vendor", "vendor")
# Code of the fault if another activity now has the name that a version was recorded for.
ACTIVITY_REPLACED = "activity_replaced"


_UNFIT: Mapping[Why, str] = {
    "bound": _(
        "The implementation of this tool cannot run for it. {reason} Choose one that fits, or correct it."
    ),
    "explicit": _(
        "The implementation that its definition names cannot run for it. {reason} Choose one that fits, or "
        "correct it."
    ),
    "same_name": _(
        "The implementation that has the name of this tool cannot run for it. {reason} Choose one that fits, "
        "or correct it."
    ),
}


def resolve_facts(facts: Facts) -> Resolution:
    """Resolve one tool. A binding comes first; a vendor's tool runs at its vendor, and a definition by the
    rules.
    """
    if not facts.is_there:
        message = Wording(_("The environment was removed meanwhile. Nothing was run."))
        fault = DomainError("unknown_environment", message, status=409)
        return Resolution("nothing", "bound", explicit=facts.explicit, fault=fault)
    if facts.is_bound:
        if facts.is_removed:
            message = Wording(_("The implementation of this tool was removed. Choose another one."))
            fault = DomainError("activity_removed", message, status=409)
            return Resolution("nothing", "bound", explicit=facts.explicit, fault=fault)
        if facts.activity is None:
            return Resolution("latent", "bound", explicit=facts.explicit)
        return _run_activity(facts, "bound", facts.activity)
    if not facts.is_own:
        return VENDOR
    if facts.explicit and facts.named is None:
        template = _(
            "Its definition names the implementation “{name}”, and there is none. Create one with this name, "
            "or choose another in the environment."
        )
        message = Wording(template, {"name": printable(facts.explicit, 100)})
        fault = DomainError("unknown_activity", message, status=409)
        return Resolution("nothing", "explicit", explicit=facts.explicit, fault=fault)
    if facts.explicit == "":
        return Resolution("latent", "explicit", explicit="")
    if facts.named is not None:
        return _run_activity(facts, "explicit" if facts.explicit else "same_name", facts.named)
    return Resolution("latent", "no_activity")


def _run_activity(facts: Facts, why: Why, activity: int) -> Resolution:
    if why != "bound" and facts.is_replaced and not facts.unfit:
        template = _(
            "Another implementation has the name “{name}” now. Choose a version under Updates, or choose an "
            "implementation in the environment."
        )
        message = Wording(template, {"name": printable(facts.name, 100)})
        fault = DomainError(ACTIVITY_REPLACED, message, status=409)
        return Resolution("nothing", why, explicit=facts.explicit, fault=fault)
    if not facts.unfit:
        is_recorded = why == "bound" or facts.is_recorded
        return Resolution(
            "activity",
            why,
            activity,
            facts.explicit,
            version=facts.version,
            unrecorded_name="" if is_recorded else facts.name,
        )
    message = Wording(_UNFIT[why], {"reason": facts.unfit})
    fault = DomainError("activity_unfit", message, status=409)
    return Resolution("nothing", why, explicit=facts.explicit, fault=fault)
