import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from people import first_administrator


class Command(BaseCommand):
    help = "Store the code in PEGBOARD_FIRST_CODE, with which a browser creates the first administrator."

    def handle(self, *args: Any, **options: Any) -> None:
        code = os.environ.get("PEGBOARD_FIRST_CODE", "")
        if len(code) < 12:
            raise CommandError("PEGBOARD_FIRST_CODE needs a code of at least 12 characters.")
        first_administrator.store_code(code)
