"""The image without Docker: a root directory that the steps of the Dockerfile fill, and processes in it.

Each process has a mount namespace of its own. The programs of this system and its Python installation are
mounted read-only in place of the base image. Needs root.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from tests.dockerfile import Instruction, build_context, parse_dockerfile

ROOT = Path(__file__).resolve().parent.parent
PYTHON = Path(sys.base_prefix)
SYSTEM = ("bin", "sbin", "lib", "lib64", "usr")
ETC = (
    *("passwd", "group", "shadow", "gshadow", "login.defs", "default", "nsswitch.conf", "ld.so.cache"),
    *("ssl", "alternatives"),
)
# Arguments: the root, its mode (ro or rw), mounts as SOURCE:TARGET:MODE, --, the command.
ENTER = """
set -e
root=$1 root_mode=$2
shift 2
mount --bind "$root" "$root"
while [ "$1" != -- ]; do
  source=${1%%:*} target=$root${1#*:}
  mode=${target##*:} target=${target%:*}
  mount --bind "$source" "$target"
  mount -o "remount,bind,$mode" "$target"
  shift
done
shift
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -o "remount,bind,$root_mode" "$root"
exec chroot "$root" "$@"
"""


def is_possible() -> bool:
    """Return True if this machine allows own mounts, networks and users."""
    if os.geteuid() or not shutil.which("unshare"):
        return False
    command = ["unshare", "--mount", "--net", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class ImageRoot:
    """One stage of the build, and at its end the image.

    environment, workdir, user and command are those that ENV, WORKDIR, USER and CMD have set.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {"PATH": f"{PYTHON}/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.workdir, self.user, self.command = "/", "0", list[str]()
        self.mounts: list[str] = []
        for name in SYSTEM:
            if Path("/", name).is_symlink():
                self.path(name).parent.mkdir(parents=True, exist_ok=True)
                self.path(name).symlink_to(os.readlink(Path("/", name)))
            elif Path("/", name).is_dir():
                self._mount(Path("/", name), f"/{name}", "ro")
        if not PYTHON.is_relative_to("/usr"):
            self._mount(PYTHON, str(PYTHON), "ro")
        for name in ("etc", "tmp", "dev", "proc", "run", "root"):
            self.path(name).mkdir(exist_ok=True)
        self.path("tmp").chmod(0o1777)
        for name in ETC:
            source, target = Path("/etc", name), self.path(f"etc/{name}")
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True)
            elif source.exists():
                shutil.copy2(source, target)
        self.path("etc/hosts").write_text("127.0.0.1 localhost postgres valkey\n")

    def path(self, path: str) -> Path:
        """Return where a path of the image lies on this machine."""
        return self.directory / path.lstrip("/")

    def _mount(self, source: Path, target: str, mode: str) -> None:
        self.path(target).mkdir(parents=True, exist_ok=True)
        self.mounts.append(f"{source}:{target}:{mode}")

    def start(
        self,
        words: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        is_read_only: bool = False,
        volumes: Mapping[str, Path] | None = None,
        network: int | None = None,
        **options: object,
    ) -> subprocess.Popen:
        """Start a command as a container does.

        volumes: directories that it may write to, by the path where it sees them.
        network: a process whose network namespace it joins; without one it has the network of this machine.
        """
        mounts = [*self.mounts, *(f"{source}:{target}:rw" for target, source in (volumes or {}).items())]
        account = ["--reuid", user or self.user, "--regid", self.group_of(user or self.user)]
        limits = ["--no-new-privs", "--bounding-set=-all"] if is_read_only else []
        join = ["nsenter", f"--net=/proc/{network}/ns/net"] if network else []
        variables = {**self.environment, "HOME": "/", **(environment or {})}
        return subprocess.Popen(
            [
                *join,
                *("unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "enter"),
                *(str(self.directory), "ro" if is_read_only else "rw", *mounts, "--"),
                *("setpriv", *account, "--clear-groups", *limits),
                *("env", "-i", *(f"{name}={value}" for name, value in variables.items())),
                *("sh", "-c", 'cd "$0" && exec "$@"', self.workdir, *words),
            ],
            **options,
        )

    def run(self, words: Sequence[str], **options: object) -> subprocess.CompletedProcess:
        """Run a command to its end; its output is text."""
        pipe = subprocess.PIPE
        process = self.start(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, **options)
        output, errors = process.communicate(timeout=280)
        return subprocess.CompletedProcess(words, process.returncode, output, errors)

    def group_of(self, user: str) -> str:
        """Return the number of the group that /etc/passwd of the image gives a user."""
        accounts = [line.split(":") for line in self.path("etc/passwd").read_text().splitlines()]
        return next((account[3] for account in accounts if account[2] == user), user)

    def perform(self, step: Instruction, stages: Mapping[str, "ImageRoot"]) -> None:
        """Perform one instruction. Raises AssertionError with the output of a step that fails."""
        match step.name:
            case "ENV":
                for word in shlex.split(step.text):
                    name, _, value = word.partition("=")
                    self.environment[name] = Template(value).safe_substitute(self.environment)
            case "WORKDIR":
                self.workdir = step.text
                self.path(step.text).mkdir(parents=True, exist_ok=True)
            case "USER":
                self.user = step.text
            case "CMD":
                self.command = json.loads(step.text)
            case "COPY":
                self._copy(step, stages)
            case "RUN":
                self._run_step(step)
            case "EXPOSE":
                pass
            case name:
                raise AssertionError(f"{name} is not an instruction that the tests know.")

    def _copy(self, step: Instruction, stages: Mapping[str, "ImageRoot"]) -> None:
        sources, target = step.paths()
        base = self.path(target if target.startswith("/") else f"{self.workdir}/{target}")
        for source in sources:
            if "from" in step.options:
                directory = stages[step.options["from"]].path(source)
                shutil.copytree(directory, base, symlinks=True, dirs_exist_ok=True)
                continue
            names = list(build_context(ROOT, [source]))
            assert names, f"COPY {source}: there is no such file in the context."
            for name in names:
                inner = os.path.relpath(name, source) if (ROOT / source).is_dir() else name
                (base / inner).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, base / inner)

    def _run_step(self, step: Instruction) -> None:
        # The tests have no network: pip takes the packages of their own environment.
        mounts = list(self.mounts)
        self._mount(Path(sysconfig.get_path("purelib")), "/present", "ro")
        for directory in self.environment["PATH"].split(":"):
            pip = self.path(f"{directory}/pip")
            if pip.exists():
                text = (ROOT / "tests" / "present_pip.py").read_text()
                pip.write_text(f"#!{directory}/python\n{text}")
        done = self.run(["sh", "-ec", step.text], user="0")
        self.mounts = mounts
        assert done.returncode == 0, f"RUN {step.text}\n{done.stdout}{done.stderr}"


def build_image(directory: Path) -> ImageRoot:
    """Perform every step of the Dockerfile below `directory` and return the last stage."""
    stages: dict[str, ImageRoot] = {}
    for number, stage in enumerate(parse_dockerfile((ROOT / "Dockerfile").read_text())):
        assert stage.base.startswith("python:"), stage.base
        image = stages[stage.name or str(number)] = ImageRoot(directory / str(number))
        for step in stage.instructions:
            image.perform(step, stages)
    return image
