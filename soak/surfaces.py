"""Two hundred tuned tools and a thousand others, as each export, call and page shows them."""

import subprocess
import sys

from soak.frame import Field

TESTS = ["tests/designer/overviews/test_surfaces.py", "tests/designer/overviews/test_shown_tools.py"]
# The test sets these for itself.
OURS = {"DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE"}


def storm(field: Field) -> None:
    """The suite's own tests with more tools, on servers that it starts for itself."""
    count = field.times(short=50, long=200)
    environment = {name: value for name, value in field.environment.items() if name not in OURS}
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "--no-header", *TESTS]
    done = subprocess.run(
        command,
        env=environment | {"PEGBOARD_SURFACES": str(count), "PEGBOARD_SHOWN": str(5 * count)},
        capture_output=True,
        text=True,
        check=False,
    )
    field.figure("tuned tools", count)
    field.figure("shown tools", 5 * count)
    field.expect(done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:])
