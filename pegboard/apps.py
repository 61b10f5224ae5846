from django.apps import AppConfig
from django.core.checks import Tags, register

from pegboard import checks


class PegboardConfig(AppConfig):
    name = "pegboard"

    def ready(self) -> None:
        for check in (checks.crash_points, checks.open_networks):
            register(check, Tags.security, deploy=True)
