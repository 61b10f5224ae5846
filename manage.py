#!/usr/bin/env python
import io
import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pegboard.settings")
    for stream in (sys.stdout, sys.stderr):
        # A terminal that is not in UTF-8 shows “?” for what it cannot show.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    execute_from_command_line(sys.argv)
