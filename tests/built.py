"""Projects that are built once and put back, with Dagster's history of them, for every test.

A build takes a second or two, putting it back milliseconds. A fixture of a module's scope builds, one of a function's
scope puts back: the project returns to the same folder, so that only one test at a time may use it.
"""

import copy
import shutil

import dagster as dg

from tests.daemons import Daemon
from tests.instances import History
from tests.projects import Graph, Project


class BuiltProject:
    """A project and what an instance in memory knows of it, as they are when this is made."""

    def __init__(self, project: Project, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self._project, self._history = copy.deepcopy(project), History(instance)
        self._copy = project.folder.with_name(f"{project.folder.name}-copy")
        shutil.copytree(project.folder, self._copy)

    def put_back(self) -> Project:
        """The project as it was, down to the times of its files, and the instance as it was."""
        self._history.put_back()
        shutil.rmtree(self._project.folder)
        shutil.copytree(self._copy, self._project.folder)
        return copy.deepcopy(self._project)


class BuiltGraph:
    """A graph after what was run of it."""

    def __init__(self, graph: Graph) -> None:
        self._built = BuiltProject(graph.project, graph.instance)

    def put_back(self) -> Graph:
        """The graph as it was."""
        return Graph(self._built.put_back(), self._built.instance)


class SettledDaemon:
    """A daemon after what it has done."""

    def __init__(self, daemon: Daemon) -> None:
        self._built, self._cursors = BuiltProject(daemon.project, daemon.instance), dict(daemon.cursors)

    def put_back(self) -> Daemon:
        """The daemon as it was, with its cursors."""
        return Daemon(self._built.put_back(), self._built.instance, dict(self._cursors))
