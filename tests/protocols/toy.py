"""The protocol of docs/protocols.md, run as it stands there."""

import re
import sys
from pathlib import Path
from types import ModuleType

DOCUMENT = Path(__file__).parents[2] / "docs" / "protocols.md"


def documented_modules() -> dict[str, ModuleType]:
    """The example, whose modules name themselves in their first lines, by the last part of these names."""
    text = DOCUMENT.read_text(encoding="utf-8")
    sources = re.findall(r"^```python\n# protocols/toy/(\w+)\.py\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    package = sys.modules["protocols.toy"] = ModuleType("protocols.toy")
    package.__path__ = []
    modules = {}
    for name, source in sources:
        module = modules[name] = sys.modules[f"protocols.toy.{name}"] = ModuleType(f"protocols.toy.{name}")
        setattr(package, name, module)
        exec(compile(source, f"{DOCUMENT} {name}", "exec"), module.__dict__)
    return modules


_MODULES = documented_modules()
TOY = _MODULES["client"].Toy
TOY_SERVER = _MODULES["server"].ToyServer()
