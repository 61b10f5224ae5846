import json
import sys
from argparse import ArgumentParser
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand

from pegboard.ops.doctor import outside, servers, setup, trial_restore, work
from pegboard.ops.doctor.frame import CHECKS, CheckResult, DoctorLimits, examine

SUBJECTS = (setup, servers, outside, work)
USUAL = DoctorLimits()


class Command(BaseCommand):
    help = (
        "Print what is wrong with this installation, why it matters and what to do. "
        "Ends with status 1 if anything is."
    )
    # Django's checks need a database, and this command also reports that there is none.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="for programs")
        parser.add_argument("--all", action="store_true", help="also say what is well")
        parser.add_argument("--skip", action="append", default=[], metavar="CHECK", choices=sorted(CHECKS))
        parser.add_argument("--free", type=float, default=USUAL.free_percent, metavar="PERCENT")
        parser.add_argument("--skew", type=float, default=USUAL.skew_seconds, metavar="SECONDS")
        parser.add_argument(
            "--restore",
            nargs="?",
            const="",
            metavar="FILE",
            help="also restore the newest backup, or FILE, into a database that is dropped afterwards",
        )

    def handle(self, *args: object, **options: object) -> None:
        limits = DoctorLimits(float(str(options["free"])), float(str(options["skew"])))
        skip = options["skip"] if isinstance(options["skip"], list) else []
        answers = list(examine(limits, is_local=settings.LOCAL, skip=skip))
        if options["restore"] is not None:
            file = str(options["restore"])
            answers.append(trial_restore.try_restore(Path(file) if file else None))
        if options["json"]:
            documents = [
                {
                    "check": answer.check.name,
                    "says": answer.check.claim,
                    "state": "skipped" if answer.skipped else "trouble" if answer.troubles else "well",
                    "facts": list(answer.facts),
                    "troubles": [{"found": t.summary, "why": t.impact, "do": t.act} for t in answer.troubles],
                }
                for answer in answers
            ]
            self.stdout.write(json.dumps(documents, indent=2))
        else:
            self._write_results(answers, bool(options["all"]))
        if any(answer.troubles for answer in answers):
            sys.exit(1)

    def _write_results(self, answers: list[CheckResult], tell_all: bool) -> None:
        troubles = [(answer.check, trouble) for answer in answers for trouble in answer.troubles]
        for check, trouble in troubles:
            self.stdout.write(f"{trouble.summary}\n  {trouble.impact}\n  → {trouble.act}\n  ({check.name})\n")
        if not tell_all:
            # Asked for by --restore, unlike the facts of all other checks.
            restores = [answer for answer in answers if answer.check.name == "restore"]
            for fact in (fact for answer in restores for fact in answer.facts):
                self.stdout.write(fact)
        else:
            for answer in answers:
                if not answer.troubles:
                    state = "not looked at" if answer.skipped else "well"
                    self.stdout.write(f"{state}: {answer.check.claim} ({answer.check.name})")
                for fact in answer.facts:
                    self.stdout.write(f"  {fact}")
        looked = sum(not answer.skipped for answer in answers)
        if not troubles:
            self.stdout.write(f"All is well: {looked} checks found nothing.")
        else:
            things = "1 thing needs" if len(troubles) == 1 else f"{len(troubles)} things need"
            self.stdout.write(f"{things} you. {looked} checks were made.")
