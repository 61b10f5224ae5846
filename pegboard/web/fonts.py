"""The two fonts of the pages: small subsets, made on this machine from packages."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles import utils
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

FOLDER = "fonts"
LICENCE = "OFL.txt"
# The name that style sheets use, the package, and its file.
FONTS = {
    "sans.woff2": ("fontpkg_geist", "Geist[wght].ttf"),
    "mono.woff2": ("fontpkg_geist_mono", "GeistMono[wght].ttf"),
}
# Latin with its extensions, punctuation, currencies, arrows, mathematics. The system's fonts draw the rest.
UNICODES = "20-7e,a0-24f,1e00-1eff,2010-2027,202f-205e,20a0-20bf,2116,2122,2190-2195,2212,2248,2260-2265"
ARGUMENTS = (
    "--flavor=woff2",
    "--no-hinting",
    "--layout-features=kern,mark,mkmk,ccmp,locl,calt,liga,tnum,case",
    f"--unicodes={UNICODES}",
)
TIME_LIMIT = 60


class FontFinder(BaseFinder):
    """Finds `fonts/*.woff2` for `collectstatic`, and for a web server without collected files."""

    @cached_property
    def storage(self) -> FileSystemStorage:
        return FileSystemStorage(location=find_subsets())

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        for path in utils.get_files(self.storage, list(ignore_patterns or ())):
            yield path, self.storage

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        is_found = path.startswith(f"{FOLDER}/") and self.storage.exists(path)
        paths = [self.storage.path(path)] if is_found else []
        return paths if find_all else next(iter(paths), None)


def find_subsets() -> Path:
    """Return the directory with the subsets. The first caller makes them, in half a second."""
    packages = [package for package, _ in FONTS.values()]
    versions = [version(package) for package in (*packages, "fonttools", "brotli")]
    digest = hashlib.sha256(repr((versions, ARGUMENTS)).encode()).hexdigest()[:12]
    cache = settings.BASE_DIR / ".cache" / "static"
    if (cache / digest).is_dir():
        return cache / digest
    try:
        cache.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=cache))
    except OSError:  # installed by another user: each process makes its own copy
        return make_subsets(Path(tempfile.mkdtemp(prefix="pegboard-fonts-")))
    make_subsets(draft)
    try:
        draft.rename(cache / digest)
    except OSError:  # another process was faster
        shutil.rmtree(draft)
    return cache / digest


def make_subsets(directory: Path) -> Path:
    """Write the subsets and their licence. Another process runs fontTools, which stays out of our memory."""
    folder = directory / FOLDER
    folder.mkdir()
    for name, (package, file_name) in FONTS.items():
        source = _package_directory(package) / "files" / file_name
        subprocess.run(  # noqa: S603 - every argument is a constant or a path of ours
            [sys.executable, "-m", "fontTools.subset", source, *ARGUMENTS, f"--output-file={folder / name}"],
            check=True,
            capture_output=True,
            timeout=TIME_LIMIT,
        )
        shutil.copyfile(_package_directory(package) / "LICENSE", folder / LICENCE)
    for path in (directory, folder, *folder.iterdir()):
        os.chmod(path, 0o755 if path.is_dir() else 0o644)
    return directory


def _package_directory(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No package {package}. Install requirements.txt.", name=package)
    return Path(spec.origin).parent
