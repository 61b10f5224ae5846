"""Debian machines with systemd, as containers of systemd-nspawn, in a network of their own.

Every machine is an overlay on one minimal Debian that debootstrap made. It reaches the Debian and Python
packages through this machine (masquerading). Of this machine only a bridge, a table of nftables and the
forwarding of packets change, until the run ends.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.image_root import is_possible

BRIDGE, TABLE = "pegboard0", "pegboard_operator"
GATEWAY, NETWORK = "10.77.0.1", "10.77.0.0/24"
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
PROGRAMS = ("debootstrap", "systemd-nspawn", "nsenter", "nft", "ip", "git", "openssl", "curl")
MIRROR = "http://deb.debian.org/debian"
PACKAGES = "systemd,systemd-sysv,dbus,ca-certificates,iproute2,procps"
# A quiet machine boots in seconds and needs two minutes for a block; a busy one takes many times as long.
BOOT_SECONDS, BLOCK_SECONDS = 300, 1_800
ENVIRONMENT = {
    "HOME": "/root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}


class CommandError(Exception):
    """Commands ended with another status than 0, or not in time; the message has the end of their output."""


def missing_requirements() -> list[str]:
    """Return what this machine lacks: the rights of root, mounts and networks of its own, programs."""
    if os.geteuid():
        return ["root"]
    if not is_possible():
        return ["a kernel that lets it make mounts and networks"]
    return [program for program in PROGRAMS if shutil.which(program) is None]


def ensure_base(directory: Path) -> Path:
    """Return the root directory of a minimal Debian 12. It is made once and then used again."""
    base = directory / "base"
    if not base.exists():
        partial = directory / "base.partial"
        shutil.rmtree(partial, ignore_errors=True)
        _run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(partial), MIRROR)
        # The authorities that this machine trusts: packages may come through a proxy that it knows.
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", partial / "etc/ssl/certs/ca-certificates.crt")
        partial.rename(base)
    return base


@contextmanager
def network() -> Iterator[None]:
    """A bridge with this machine as the gateway, which passes requests on under its own address."""
    _remove_network()
    was_forwarding = FORWARDING.read_text()
    _run("ip", "link", "add", BRIDGE, "type", "bridge")
    try:
        _run("ip", "address", "add", f"{GATEWAY}/24", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        FORWARDING.write_text("1")
        _run("nft", "add", "table", "ip", TABLE)
        chain = "{ type nat hook postrouting priority 100 ; }"
        _run("nft", "add", "chain", "ip", TABLE, "outbound", chain)
        target = ["ip", "saddr", NETWORK, "ip", "daddr", "!=", NETWORK, "masquerade"]
        _run("nft", "add", "rule", "ip", TABLE, "outbound", *target)
        yield
    finally:
        FORWARDING.write_text(was_forwarding)
        _remove_network()


def _remove_network() -> None:
    for command in (("ip", "link", "delete", BRIDGE), ("nft", "delete", "table", "ip", TABLE)):
        subprocess.run(command, capture_output=True, check=False)


class Machine:
    """One Debian machine.

    lower: directories below its own, the topmost first; they are not written to.
    """

    def __init__(
        self, name: str, address: str, directory: Path, cache: Path, lower: tuple[Path, ...]
    ) -> None:
        self.name, self.address = name, address
        self.upper, self.root = directory / name / "upper", directory / name / "root"
        self._work, self._lower = directory / name / "work", lower
        self._cache = cache
        self._container: subprocess.Popen[bytes] | None = None

    def start(self, names: Mapping[str, str]) -> None:
        """Boot the machine. `names` maps host names to addresses, for its /etc/hosts."""
        for path in (self.upper, self.root, self._work, self._cache / "apt", self._cache / "pip"):
            path.mkdir(parents=True, exist_ok=True)
        layers = ":".join(map(str, self._lower))
        options = f"lowerdir={layers},upperdir={self.upper},workdir={self._work}"
        _run("mount", "-t", "overlay", "overlay", "-o", options, str(self.root))
        (self.root / "etc/hosts").write_text(hosts_file(names))
        (self.root / "etc/hostname").write_text(f"{self.name}\n")
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        self._container = subprocess.Popen(
            [
                *(
                    "systemd-nspawn",
                    "--quiet",
                    "--keep-unit",
                    "--register=no",
                    "--boot",
                    "--console=read-only",
                ),
                *(f"--directory={self.root}", f"--machine={self.name}", f"--network-bridge={BRIDGE}"),
                *("--resolv-conf=off", "--settings=no", "--link-journal=no"),
                f"--bind={self._cache}/apt:/var/cache/apt/archives",
                f"--bind={self._cache}/pip:/root/.cache/pip",
            ],
            stdin=subprocess.DEVNULL,
            stdout=(self.root.parent / "console").open("wb"),
            stderr=subprocess.STDOUT,
        )
        self._wait_until_booted()
        self.run(
            f"ip address add {self.address}/24 dev host0\n"
            f"ip link set host0 up\n"
            f"ip route add default via {GATEWAY}\n"
        )

    def _wait_until_booted(self) -> None:
        deadline = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < deadline:
            try:
                state = self.run("systemctl is-system-running || true", timeout=10).strip()
            except CommandError:
                state = ""
            if state in ("running", "degraded"):
                return
            time.sleep(0.5)
        console = (self.root.parent / "console").read_text(errors="replace")
        raise CommandError(f"{self.name} has not booted within {BOOT_SECONDS} s:\n{console[-2000:]}")

    def run(self, commands: str, timeout: float = BLOCK_SECONDS) -> str:
        """Run commands as root and return what they print.

        Raises CommandError if one of them ends with another status than 0.
        """
        assert self._container is not None
        leader = psutil.Process(self._container.pid).children()
        if not leader:
            raise CommandError(f"{self.name} does not run")
        enter = [
            "nsenter",
            "--target",
            str(leader[0].pid),
            "--mount",
            "--uts",
            "--ipc",
            "--net",
            "--pid",
            "--cgroup",
        ]
        environment = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        shell = [
            "env",
            "--ignore-environment",
            *environment,
            "--chdir=/root",
            "bash",
            "-euo",
            "pipefail",
            "-c",
        ]
        return run_commands([*enter, *shell, commands], self.name, timeout)

    def stop(self) -> None:
        """End the machine as a power cut would, and take its overlay away."""
        if self._container is not None:
            for process in psutil.Process(self._container.pid).children():
                process.kill()
            self._container.wait(30)
            self._container = None
        subprocess.run(["umount", "--recursive", "--lazy", str(self.root)], capture_output=True, check=False)


def hosts_file(names: Mapping[str, str]) -> str:
    """Return an /etc/hosts that maps these host names to addresses, and `localhost`."""
    return "".join(f"{address} {name}\n" for name, address in {"localhost": "127.0.0.1", **names}.items())


def run_commands(command: list[str], name: str, timeout: float) -> str:
    """Run a command with its output in one text. Raises CommandError unless it ends in time with status 0."""
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        output = (error.output or b"").decode(errors="replace")
        raise CommandError(f"{name}: not ended after {timeout:g} s\n{output[-4000:]}") from error
    output = result.stdout.decode(errors="replace")
    if result.returncode:
        raise CommandError(f"{name}: status {result.returncode}\n{output[-4000:]}")
    return output


def _run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, check=False)
    if result.returncode:
        output = result.stderr.decode(errors="replace")
        raise CommandError(f"{' '.join(command)}: status {result.returncode}\n{output[-2000:]}")
