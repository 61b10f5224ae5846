"""Every call of the API, asked what its schema allows and forbids: at every boundary, and at random."""

import subprocess
import sys

from soak.frame import Field

TEST = "tests/pegboard/api/test_schema.py"
# The test sets these for itself.
OURS = {"DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE"}


def storm(field: Field) -> None:
    """The suite's own test with more examples, on servers that it starts for itself."""
    count = field.times(short=20, long=200)
    environment = {name: value for name, value in field.environment.items() if name not in OURS}
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "--no-header", TEST]
    done = subprocess.run(
        command,
        env=environment | {"PEGBOARD_FUZZ": str(count)},
        capture_output=True,
        text=True,
        check=False,
    )
    field.figure("examples of each call, beside its boundaries", count)
    field.expect(done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:])
