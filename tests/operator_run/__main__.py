"""python -m tests.operator_run: execute docs/install.md on Debian machines. `make operator` calls this.

It needs root, 8 GB of memory and the Debian and Python packages; without them it prints so and exits with 0.
"""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.operator_run.first_use import Installation, UnexpectedAnswerError
from tests.operator_run.machines import (
    NETWORK,
    CommandError,
    Machine,
    ensure_base,
    missing_requirements,
    network,
    run_commands,
)
from tests.operator_run.manual import Block, read_blocks

ROOT = Path(__file__).resolve().parent.parent.parent
MANUAL = ROOT / "docs" / "install.md"
CACHE = Path("/var/cache/pegboard-operator")
URL, VENDOR = "https://pegboard.example.com", "vendor.example.com"
AGENT, TOOL = "operator", "get_loyalty_balance"
TOOL_ARGUMENTS: dict[str, object] = {"member_id": "M-1001"}
ADDRESSES = {
    "one": "10.77.0.9",
    "db1": "10.77.0.10",
    "app1": "10.77.0.11",
    "app2": "10.77.0.12",
    "runtimes1": "10.77.0.13",
    "worker1": "10.77.0.14",
    "vendor1": "10.77.0.20",
    "proxy1": "10.77.0.21",
}
NAMES = {**ADDRESSES, "pegboard.example.com": ADDRESSES["app1"], VENDOR: ADDRESSES["vendor1"]}
# These begin as copies of app1 after its code was installed: the same commands would give the same files.
COPIES_OF_APP1 = ("app2", "runtimes1", "worker1")
MACHINE_MARK = "PEGBOARD_OPERATOR_RUN"


class OperatorRun:
    """One run through the manual: its machines, the directory of `admin` and what was measured."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        self._stack, self._directory = stack, directory
        self._base = ensure_base(CACHE)
        self._machines: dict[str, Machine] = {}
        self.admin = directory / "admin"
        self.newest_commit = run_commands(["git", "-C", str(ROOT), "rev-parse", "HEAD"], "admin", 10).strip()
        self._installation: Installation | None = None

    def machine(self, name: str) -> Machine:
        """Return the machine of this name; it is started at its first use."""
        if name not in self._machines:
            lower = (self._base,)
            if name in COPIES_OF_APP1:
                copy = self._directory / f"{name}-image"
                run_commands(["cp", "-a", str(self.machine("app1").upper), str(copy)], name, 120)
                lower = (copy, self._base)
            machine = Machine(name, ADDRESSES[name], self._directory, CACHE, lower)
            self._stack.callback(machine.stop)
            machine.start(NAMES)
            self._machines[name] = machine
        return self._machines[name]

    def execute(self, block: Block) -> None:
        """Run one block on the machine that the manual names. Raises CommandError if a command fails."""
        started = time.monotonic()
        place = f"docs/install.md:{block.line} {block.machine}"
        try:
            if block.machine == "admin":
                self.run_as_admin(block.commands)
            elif block.service:
                quoted = block.commands.replace("'", "'\\''")
                unit = f"systemd-run --quiet --unit={block.service} --setenv=HOME=/root bash -c '{quoted}'"
                machine = self.machine(block.machine)
                machine.run(unit)
                machine.run(
                    f"until journalctl --unit={block.service} | grep --quiet ' ready: '; do\n"
                    f"  systemctl is-active --quiet {block.service}\n  sleep 1\ndone"
                )
            else:
                # After a failure the output names the command.
                self.machine(block.machine).run(f"set -x\n{block.commands}")
        finally:
            seconds = time.monotonic() - started
            print(f"{seconds:6.1f} s  {place}  ({block.section or block.chapter})", flush=True)

    def installation(self) -> Installation:
        """Return the REST interface of the installation, with a key of its administrator."""
        if self._installation is None:
            printed = self.machine("app1").run("pegboard-manage token operator --user admin")
            authorities = str(self.admin / "installation" / "ca.pem")
            self._installation = Installation(URL, authorities, printed.strip().splitlines()[-1])
        return self._installation

    def run_as_admin(self, commands: str) -> None:
        programs = self._directory / "programs"
        environment = ["env", f"PATH={programs}:{os.environ['PATH']}"]
        run_commands(
            [*environment, "bash", "-euo", "pipefail", "-c", f"cd {self.admin}\n{commands}"], "admin", 300
        )


def prepare_admin(run: OperatorRun, directory: Path, commit: str) -> None:
    """Make the directory that `admin` works in: a clone of this repository at the older commit, and `scp`."""
    run_commands(["git", "clone", "--quiet", str(ROOT), str(run.admin)], "admin", 120)
    run_commands(["git", "-C", str(run.admin), "checkout", "--quiet", commit], "admin", 60)
    programs = directory / "programs"
    programs.mkdir()
    # The machines have no SSH: copying goes through their root directories.
    (programs / "scp").write_text(
        f"#!/usr/bin/env python3\nimport re, subprocess, sys\n"
        f'paths = [re.sub(r"^root@([a-z0-9]+):", r"{directory}/\\1/root", path) for path in sys.argv[1:]]\n'
        f'sys.exit(subprocess.call(["cp", "-p", *paths]))\n'
    )
    (programs / "scp").chmod(0o755)
    for name in ("one", "db1", "app1"):
        run.machine(name)
    run_commands(["cp", "-a", str(run.admin), str(run.machine("one").root / "opt/pegboard")], "one", 60)


def start_vendor(run: OperatorRun) -> None:
    """Start the demo vendors on a machine of their own, with a certificate of the new authority."""
    vendor = run.machine("vendor1")
    shutil.copytree(ROOT / "demo", vendor.root / "srv/demo")
    installation = run.admin / "installation"
    run.run_as_admin(
        "cd installation\n"
        "openssl req -newkey rsa:2048 -nodes -subj /CN=vendor -keyout vendor.key -out vendor.csr\n"
        "printf 'subjectAltName=DNS:vendor.example.com\\n' > vendor.ext\n"
        "openssl x509 -req -in vendor.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 "
        "-extfile vendor.ext -out vendor.pem\n"
    )
    for name in ("vendor.pem", "vendor.key"):
        shutil.copy(installation / name, vendor.root / "etc" / name)
    vendor.run(
        "apt-get update --quiet=2 && apt-get install --yes --quiet=2 nginx python3 >/dev/null 2>&1\n"
        "systemd-run --quiet --unit=vendors --working-directory=/srv python3 -m demo --port-base 9101\n"
        "cat > /etc/nginx/sites-enabled/default <<'EOF'\n"
        "server { listen 443 ssl; ssl_certificate /etc/vendor.pem; ssl_certificate_key /etc/vendor.key;\n"
        "  location / { proxy_pass http://127.0.0.1:9101; proxy_set_header Host 127.0.0.1:9101; } }\n"
        "EOF\n"
        "systemctl restart nginx\n"
    )


def start_proxy(run: OperatorRun) -> None:
    """Start a proxy that accepts CONNECT from the machines."""
    run.machine("proxy1").run(
        "apt-get update --quiet=2 && apt-get install --yes --quiet=2 tinyproxy >/dev/null 2>&1\n"
        "cd /etc/tinyproxy\n"
        "sed -i 's/^Allow .*//; s/^Port .*/Port 8888/; s/^LogLevel .*/LogLevel Connect/' tinyproxy.conf\n"
        f"echo 'Allow {NETWORK}' >> tinyproxy.conf\n"
        "systemctl restart tinyproxy\n"
    )


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.operator_run", description=__doc__)
    arguments.add_argument("--until", default="", help="the section to end after")
    arguments.add_argument(
        "--interactive",
        action="store_true",
        help="after a failure wait for Enter, and repeat the block",
    )
    arguments.add_argument("--from-commit", default="HEAD~1", help="the version that is installed first")
    options = arguments.parse_args()
    if requirements := missing_requirements():
        print(f"The operator run is skipped: it needs {', '.join(requirements)}.")
        return 0
    if MACHINE_MARK not in os.environ:
        # Mounts and host names of a run are seen by its own processes alone, and end with them.
        os.environ[MACHINE_MARK] = "1"
        inside = [sys.executable, "-m", "tests.operator_run", *sys.argv[1:]]
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", *inside])
    return execute_manual(options.until, options.from_commit, options.interactive)


def execute_manual(until: str, commit: str, is_interactive: bool) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that machines are stopped then, too
    directory = CACHE / "machines"
    directory.mkdir(parents=True, exist_ok=True)
    # In memory: it is seen by this run alone, and gone with it. The machines need 8 GB, and a tenth free.
    run_commands(["mount", "-t", "tmpfs", "-o", "size=12g", "tmpfs", str(directory)], "admin", 10)
    hosts = directory / "hosts"
    hosts.write_text(
        "".join(f"{address} {name}\n" for name, address in {"localhost": "127.0.0.1", **NAMES}.items())
    )
    run_commands(["mount", "--bind", str(hosts), "/etc/hosts"], "admin", 10)
    started = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(network())
        run = OperatorRun(stack, directory)
        prepare_admin(run, directory, commit)
        position = 0
        while position < len(blocks := read_blocks(MANUAL)):
            try:
                execute_block(run, blocks, position)
            except (CommandError, UnexpectedAnswerError) as failure:
                print(failure, flush=True)
                if not is_interactive:
                    return 1
                input("Press Enter to repeat this block. ")
                continue
            position += 1
            if until and blocks[position - 1].section == until and is_last_of_section(blocks, position - 1):
                break
    print(f"{time.monotonic() - started:.0f} s in all")
    return 0


def execute_block(run: OperatorRun, blocks: list[Block], position: int) -> None:
    """Run a block, and before or after it what its section needs: a preparation, a check."""
    block = blocks[position]
    is_first = position == 0 or blocks[position - 1].section != block.section
    if is_first and (prepare := PREPARATIONS.get(block.section)):
        prepare(run)
    run.execute(block)
    if is_last_of_section(blocks, position) and (check := CHECKS.get(block.section or block.chapter)):
        check(run)


def is_last_of_section(blocks: list[Block], position: int) -> bool:
    return position + 1 == len(blocks) or blocks[position + 1].section != blocks[position].section


def delete_passwords(run: OperatorRun) -> None:
    """Delete what the manual says to delete, which later sections must not need."""
    run.machine("app1").run("rm /root/first-sign-in /root/values")
    run.machine("db1").run("rm /root/values")


def use_first_time(run: OperatorRun) -> None:
    """Connect a vendor, publish an agent with one of its tools and call it."""
    tools = run.installation().connect_vendor("Bramble", "a2t", f"https://{VENDOR}/")
    published = run.installation().publish(AGENT, TOOL)
    print(f"          {tools} tools, release {published.digest}, {call_tool(run)}")


def call_tool(run: OperatorRun) -> str:
    """Run the released tool and return its outputs as text."""
    return str(run.installation().call(AGENT, TOOL, TOOL_ARGUMENTS))


def use_again(run: OperatorRun) -> None:
    """Check that everything is still there, and that the released tool still runs."""
    state = run.installation().request("GET", "/readyz")
    print(f"          {state} {call_tool(run)}")


def use_through_proxy(run: OperatorRun) -> None:
    use_again(run)
    log = run.machine("proxy1").run("journalctl --no-pager --identifier=tinyproxy")
    if f"CONNECT {ADDRESSES['vendor1']}:443" not in log:
        raise UnexpectedAnswerError(f"The call did not go through the proxy:\n{log[-2000:]}")


def use_with_both_modes(run: OperatorRun) -> None:
    """The pooler works in the mode of the manual, and in session mode."""
    use_again(run)
    run.machine("db1").run(
        "sed -i 's/^pool_mode = transaction/pool_mode = session/' /etc/pgbouncer/pgbouncer.ini\n"
        "systemctl restart pgbouncer\n"
    )
    use_again(run)


def stop_one(run: OperatorRun) -> None:
    """Press Ctrl-C and turn the machine off."""
    run.machine("one").run("systemctl kill --kill-whom=main --signal=SIGINT pegboard.service")
    run.machine("one").stop()


PREPARATIONS: dict[str, Callable[[OperatorRun], None]] = {
    "Vendors in your own network": start_vendor,
    "An outbound proxy": start_proxy,
    "Upgrade": lambda run: run.run_as_admin(f"git checkout --quiet {run.newest_commit}"),
}
CHECKS: dict[str, Callable[[OperatorRun], None]] = {
    "One machine": stop_one,
    "Check the installation": delete_passwords,
    "Vendors in your own network": use_first_time,
    "An outbound proxy": use_through_proxy,
    "Restore": use_again,
    "Upgrade": use_again,
    "Roll back": use_again,
    "More servers": use_again,
    "A pooler": use_with_both_modes,
}


if __name__ == "__main__":
    sys.exit(main())
