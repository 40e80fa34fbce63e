"""Tests are where their modules are: `tests/catalog/rows/test_x.py` for `headrace/catalog/rows/x.py`."""

import ast
from pathlib import Path

import pytest

BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.comprehension, ast.BoolOp, ast.Match)
ROOTS = {"headrace": "tests", "assets": "tests/assets", "resources": "tests/resources", "sensors": "tests/sensors"}
ROOTS |= {"headrace_dagster/build_command": "tests/headrace_dagster/build_command"}


def has_logic(path):
    return sum(isinstance(node, BRANCHES) for node in ast.walk(ast.parse(path.read_text()))) > 2


@pytest.mark.medium
def test_nine_tenths_of_the_modules_with_logic_have_a_test_in_their_place():
    modules = [(Path(root), path) for root in ROOTS for path in Path(root).rglob("*.py") if path.name != "__init__.py"]
    places = {
        path: Path(ROOTS[str(root)], path.relative_to(root)).with_name(f"test_{path.name}") for root, path in modules
    }
    untested = {path for path, place in places.items() if not place.exists()}
    without = sorted(str(path) for path in untested if has_logic(path))  # to parse all modules takes seconds
    assert len(without) <= len(places) / 12, without
