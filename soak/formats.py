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
    signatures = real_tools.signatures()
    release = real_tools.release_of(signatures[:: field.times(short=10, long=1)])
    field.figure("tools", len(release.tools))
    for name, validator in VALIDATORS.items():
        with stopwatch() as seconds:
            exportable = carried(release, FORMATS[name].limits)
            document = json.loads(FORMATS[name].body(exportable.fitting))
        field.figure(f"{name}: seconds to judge and write", round(seconds(), 2))
        field.fault("format", f"{name}: {len(exportable.left_out)} of {len(release.tools)} left out")
        explained_tools = {remark.tool for remark in exportable.blocking}
        field.expect(
            set(exportable.left_out) == explained_tools, f"{name} leaves out tools and does not say why"
        )
        wrong = next(validator.iter_errors(document), None)
        field.expect(wrong is None, f"{name}: {wrong and wrong.message[:200]}")
        accepted_document = JUDGES.get(name, lambda document: document)(document)
        field.expect(accepted_document == document, f"{name}: the provider's package drops something")
