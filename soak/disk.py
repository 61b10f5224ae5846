"""The disk of the database fills up to the last byte, and is emptied again."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pegboard.local.embedded import Embedded
from soak.frame import Field
from tests.faults.stand import Stand, wait_for
from tests.vendor import Vendor, serving, tools

SIZE = "300m"
BACK = 60


def storm(field: Field) -> None:
    if os.geteuid() != 0:
        field.skip("only root can mount a small disk")
        return
    with small_disk(field.directory / "small") as disk:
        servers = Embedded(disk / "data")
        servers.start()
        stand = Stand(servers, field.environment | servers.urls, field.directory)
        try:
            stand.warm.do("migrate")
            with serving(Vendor(tools(25))) as stand.vendor:
                stand.set_up()
                stand.begin_web()
                wait_for(lambda: stand.ask("/healthz").status == 200, 60, "the first page")
                for number in range(field.times(short=1, long=5)):
                    fill(field, stand, disk / "filler", number)
        finally:
            stand.stop()
            servers.stop()


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill(field: Field, stand: Stand, filler: Path, number: int) -> None:
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass
    codes = set()
    for write in range(200):
        answer = stand.ask("/api/v1/agents/", {"name": f"{number} {write}", "description": "x" * 3900})
        codes.add(answer.status)
        if answer.status != 201:
            break
    read_status = stand.ask("/api/v1/agents/clerk/releases/1/bundle/").status
    filler.unlink()
    postgres = stand.service("postgres")
    if postgres.has_ended():  # as the supervisor of `make run` does
        postgres.begin()
    took = wait_for(lambda: stand.ask("/api/v1/agents/", {"name": "after"}).status == 201, 120, "a write")
    field.expect(codes <= {201, 503}, f"disk {number}: writes answered {codes}")
    field.expect(read_status in (200, 503), f"disk {number}: reading answered {read_status}")
    field.figure(f"reading while disk {number} was full", read_status)
    field.fault("disk full", f"{len(codes)} kinds of answers", recovery=took, limit=BACK)
