"""Tools that other programs wrote, in every export format.

Each document keeps its target's rules, and its provider's own package takes it.
"""

import json

from designer.exports.base import carried
from soak.frame import Field, stopwatch
from tests.designer.exports import real_tools
from tests.designer.exports.formats import FORMATS, VALIDATORS
from tests.designer.exports.test_by_sdk import JUDGES


def storm(field: Field) -> None:
    found = real_tools.signatures()
    release = real_tools.release_of(found[:: field.times(short=10, long=1)])
    field.figure("tools", len(release.tools))
    for name, validator in VALIDATORS.items():
        with stopwatch() as seconds:
            judged = carried(release, FORMATS[name].limits)
            document = json.loads(FORMATS[name].body(judged.fitting))
        field.figure(f"{name}: seconds to judge and write", round(seconds(), 2))
        field.fault("format", f"{name}: {len(judged.left_out)} of {len(release.tools)} left out")
        told = {remark.tool for remark in judged.blocking}
        field.expect(set(judged.left_out) == told, f"{name} leaves out tools and does not say why")
        wrong = next(validator.iter_errors(document), None)
        field.expect(wrong is None, f"{name}: {wrong and wrong.message[:200]}")
        taken = JUDGES.get(name, lambda document: document)(document)
        field.expect(taken == document, f"{name}: the provider's package drops something")
