"""python -m pegboard.local: the process of `manage.py up`, which has read no settings yet."""

import os
import signal
import sys
from argparse import ArgumentParser
from functools import partial
from pathlib import Path

from pegboard.local.embedded import EmbeddedError
from pegboard.local.processes import die_with_parent
from pegboard.local.product import LocalError, LocalOptions, LocalProduct


def add_arguments(parser: ArgumentParser) -> None:
    env = os.environ
    parser.add_argument("--port", type=int, default=int(env.get("PORT") or 8000))
    parser.add_argument("--data", type=Path, default=Path(env.get("DATA") or ".data"))
    parser.add_argument("--no-demo", action="store_false", dest="demo", default=env.get("DEMO") != "0")
    parser.add_argument("--restore", type=Path, default=env.get("RESTORE"), help="begin with this backup")
    parser.add_argument("--with-parent", action="store_true", help="stop when what started this dies")


def main() -> None:
    parser = ArgumentParser(prog="manage.py up")
    add_arguments(parser)
    options = parser.parse_args()
    if options.with_parent:
        die_with_parent(os.getppid(), signal.SIGTERM)
    try:
        LocalProduct(
            LocalOptions(options.data, options.port, options.demo, options.restore),
            partial(print, flush=True),
        ).run()
    except (EmbeddedError, LocalError) as error:
        sys.exit(f"CommandError: {error}")  # as `manage.py` prints it


if __name__ == "__main__":
    main()
