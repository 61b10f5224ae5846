"""python -m tests.pictures: the pictures of README.md, taken of the running product with its demo vendors.

One page at 1440 by 900 pixels in each theme, signed in as the demo designer. `make pictures` calls this.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
PAGE = "/tools/?q=refill+a+prescription"
THEMES = ("light", "dark")
SIZE = {"width": 1440, "height": 900}
PASSWORD = "only-for-pictures"


@contextmanager
def product() -> Iterator[str]:
    """Its address, once the demo catalog is filled."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="pegboard-pictures-") as data:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PEGBOARD_")},
            "PORT": str(port),
            "DATA": f"{data}/data",
            "PEGBOARD_DEMO_PASSWORD": PASSWORD,
        }
        command = [sys.executable, "manage.py", "up", "--with-parent"]
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            messages = []
            try:
                for line in process.stdout or ():
                    messages.append(line)
                    if line.startswith("ready: "):
                        break
                else:
                    raise SystemExit("The product did not start:\n" + "".join(messages[-20:]))
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()
                process.communicate(timeout=60)


def take(address: str, theme: str, path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("Pictures need Chromium; install it from your distribution.")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]) as chromium,
    ):
        context = chromium.new_context(base_url=address, viewport=SIZE, reduced_motion="reduce")
        context.add_cookies([{"name": "theme", "value": theme, "url": address}])
        page = context.new_page()
        page.goto(f"/accounts/login/?next={PAGE}")
        page.fill("[name=username]", "designer")
        page.fill("[name=password]", PASSWORD)
        page.press("[name=password]", "Enter")
        page.wait_for_url("**/tools/**")
        page.goto(PAGE, wait_until="networkidle")
        page.screenshot(path=path)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with product() as address:
        for theme in THEMES:
            take(address, theme, FOLDER / f"tools-{theme}.png")
            print(f"docs/pictures/tools-{theme}.png")


if __name__ == "__main__":
    main()
