"""Watches child processes of the tests as the tests are watched; see tests/one_door.py.

Some hundred of them import the whole product, and looking for garbage meanwhile takes a fifth of that.
"""

import gc
import importlib.util
import os
from pathlib import Path

gc.set_threshold(50_000)

if os.environ.get("PEGBOARD_ONE_DOOR"):
    _file = Path(__file__).resolve().parent.parent / "one_door.py"
    _spec = importlib.util.spec_from_file_location("one_door_of_a_child", _file)
    _module = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(_module)
    _module.watch()
