"""How modules depend on each other, beyond the layers that import-linter holds."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("core", "people", "catalog", "designer", "executor", "pegboard", "demo")


def test_no_modules_import_each_other_in_a_circle():
    """Imports for types alone count: what needs a module for its types belongs beside it or below it."""
    graph = grimp.build_graph(*ROOMS)
    found = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(found) > 400
    circle = []
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert circle == []


def test_no_module_imports_something_for_type_checkers_alone():
    """What is imported when types are checked is imported when the product runs, so that a circle shows."""
    modules = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT))
        for path in modules
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Name) and node.id == "TYPE_CHECKING")
        or (isinstance(node, ast.Attribute) and node.attr == "TYPE_CHECKING")
    }
    assert found == set()
