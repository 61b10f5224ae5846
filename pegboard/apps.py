from celery import signals
from django.apps import AppConfig
from django.core.checks import Tags, register

from pegboard import checks, periodic, startup_checks


class PegboardConfig(AppConfig):
    name = "pegboard"

    def ready(self) -> None:
        for check in (checks.failpoints, checks.open_networks, checks.keys, checks.proxies):
            register(check, Tags.security, deploy=True)
        register(checks.egress, Tags.security)
        for signal in (signals.worker_init, signals.beat_init):
            signal.connect(startup_checks.refuse_with_problems, weak=False)
        signals.worker_process_init.connect(periodic.begin, weak=False)
