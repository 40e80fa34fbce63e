"""The contract on faces, for import-linter: other packages import a room's face and nothing else of the room.

The face of a room, which is a package, is what `__all__` of its `__init__.py` names: modules of the room, or what
`__init__.py` imports from them. A face is modules and not a list of functions, so that importing one of them does not
import the others: a code server must not load polars, and `headrace --help` must not load torch (docs/design/0097).
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from importlinter import Contract, ContractCheck, fields, output

if TYPE_CHECKING:
    from grimp import ImportGraph


class FaceContract(Contract):
    """Checks that outsiders of each room import its face only, and that no face is too large.

    Attributes:
        rooms: packages; `a.*` means all packages directly below `a`.
        most_names: the largest allowed number of modules in a face.
    """

    type_name = "faces"

    rooms = fields.ListField(subfield=fields.StringField())
    most_names = fields.IntegerField(minimum=1, default=8)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - the base class's
        """Compare the imports of the graph with the faces."""
        faults = [fault for room in self._packages(graph) for fault in face_faults(room, graph, self.most_names)]
        return ContractCheck(kept=not faults, metadata={"faults": faults})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the faults."""
        for fault in check.metadata["faults"]:
            output.print_error(fault)

    def _packages(self, graph: ImportGraph) -> list[str]:
        found: list[str] = []
        for room in self.rooms:
            if room.endswith(".*"):
                found += sorted(child for child in graph.find_children(room[:-2]) if graph.find_children(child))
            else:
                found.append(room)
        return found


def face_faults(room: str, graph: ImportGraph, most_names: int) -> list[str]:
    """List faults in the face of a room: imports past it, modules in it that nobody imports, or its size."""
    face = face_of(Path(*room.split("."), "__init__.py").read_text())
    inside = graph.find_descendants(room)
    imported = {}
    for module in inside:
        importers = graph.find_modules_that_directly_import(module) - inside - {room}
        if importers:
            imported[module.removeprefix(room + ".")] = sorted(importers)
    faults = [
        f"{importers[0]} imports {room}.{name}, which is not in `__all__` of {room}"
        for name, importers in imported.items()
        if name not in face
    ]
    modules = {name for name in face if f"{room}.{name}" in inside}
    if len(modules) > most_names:
        faults.append(f"{room} has {len(modules)} modules in its face: at most {most_names} are allowed")
    if unused := sorted(modules - set(imported) - exported(room, graph)):
        faults.append(f"{room}: no other package imports {', '.join(unused)}: take it out of `__all__`")
    return faults


def exported(room: str, graph: ImportGraph) -> set[str]:
    """Modules of a room that its `__init__.py` imports itself: these serve through the names that it gives on."""
    return {name.removeprefix(room + ".") for name in graph.find_modules_directly_imported_by(room)}


def face_of(source: str) -> set[str]:
    """The names in `__all__` of an `__init__.py`; empty without `__all__`."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return set(ast.literal_eval(node.value))
    return set()
