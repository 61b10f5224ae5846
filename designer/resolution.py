"""What runs for a tool, by the three rules of “The Tool System” and by what was decided for an environment.

Pure. https://github.com/idealic-ai/docs, rfc/02_agent_tools.md at 3c618b9, “Activity Resolution Strategy”.
"""

from dataclasses import dataclass
from typing import Literal

from core.errors import DomainError
from core.outbound.errors import printable

Runs = Literal["vendor", "activity", "latent", "nothing"]
Why = Literal["bound", "explicit", "vendor", "same_name", "no_activity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one tool in one environment.

    `is_there`: the environment was not removed meanwhile. `is_own`: the tool is defined here, and has no
    vendor. `activity` is the id of the one that is bound, None where the model shall answer; it says
    nothing where nothing `is_bound`. `explicit` is the `_activity` of the definition, None where it has
    none. `named` is the id of the live activity of that name, or else of the tool's own. `version` is the id
    of the version that would run. `name` is the name by which an activity is found, and `is_recorded`
    whether a version was recorded for it; `is_replaced`, whether that is a version of another activity.
    `unfit` is why the version that would run cannot run for this version of the tool, as a sentence.
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
    """`activity` is the id of the one that runs, and `version` that of its version. With a `fault` nothing
    runs. `unrecorded_name` is the name by which it was found, where no version was recorded for that yet.
    """

    runs: Runs
    why: Why
    activity: int | None = None
    explicit: str | None = None
    fault: DomainError | None = None
    version: int | None = None
    unrecorded_name: str = ""

    def shown_as(self, name: str) -> str:
        """The `_activity` that a model is shown of a tool that it knows by this name: "" where it answers."""
        if self.runs == "latent":
            return ""
        # What an environment binds to a tool stands there for the activity of the tool's name.
        return self.explicit or name


VENDOR = Resolution("vendor", "vendor")
# Code of the fault where another activity has the name by which a version was recorded.
ACTIVITY_REPLACED = "activity_replaced"


def resolved(facts: Facts) -> Resolution:
    """What was bound goes first. A vendor's tool runs at its vendor, and a definition by the rules."""
    if not facts.is_there:
        message = "The environment was removed meanwhile. Nothing was run."
        fault = DomainError("unknown_environment", message, status=409)
        return Resolution("nothing", "bound", explicit=facts.explicit, fault=fault)
    if facts.is_bound:
        if facts.is_removed:
            message = "The activity that is bound to this tool was removed. Bind another one."
            fault = DomainError("activity_removed", message, status=409)
            return Resolution("nothing", "bound", explicit=facts.explicit, fault=fault)
        if facts.activity is None:
            return Resolution("latent", "bound", explicit=facts.explicit)
        return _fitting(facts, "bound", facts.activity, "The activity that is bound to this tool")
    if not facts.is_own:
        return VENDOR
    if facts.explicit and facts.named is None:
        message = (
            f"Its definition names the activity “{printable(facts.explicit, 100)}”, and there is none. "
            "Register one of that name, or bind another in the environment."
        )
        fault = DomainError("unknown_activity", message, status=409)
        return Resolution("nothing", "explicit", explicit=facts.explicit, fault=fault)
    if facts.explicit == "":
        return Resolution("latent", "explicit", explicit="")
    if facts.named is not None:
        if facts.explicit:
            return _fitting(facts, "explicit", facts.named, "The activity that its definition names")
        return _fitting(facts, "same_name", facts.named, "The activity that has the name of this tool")
    return Resolution("latent", "no_activity")


def _fitting(facts: Facts, why: Why, activity: int, which: str) -> Resolution:
    if why != "bound" and facts.is_replaced and not facts.unfit:
        message = (
            f"Another activity has the name “{printable(facts.name, 100)}” now. Choose a version of it under "
            "Updates, or bind an activity in the environment."
        )
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
    message = f"{which} cannot run for it. {facts.unfit} Bind one that fits, or mend it."
    fault = DomainError("activity_unfit", message, status=409)
    return Resolution("nothing", why, explicit=facts.explicit, fault=fault)
