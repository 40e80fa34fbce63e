"""Projects that are built once per module and restored, with their Dagster history, for each test.

A build takes a second or two, restoring it takes milliseconds. A fixture with module scope builds; a fixture with
function scope restores. The project is restored in the same folder, so only one test at a time may use it.
"""

import copy
import shutil

import dagster as dg

from tests.support.change_times import change_times, restore_change_times
from tests.support.daemons import Daemon
from tests.support.instances import History
from tests.support.projects import Graph, Project


class BuiltProject:
    """A copy of a project and of its in-memory Dagster instance, taken when the object is created."""

    def __init__(self, project: Project, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self._project, self._history = copy.deepcopy(project), History(instance)
        self._copy = project.folder.with_name(f"{project.folder.name}-copy")
        shutil.copytree(project.folder, self._copy)
        self._times = change_times(project.folder)

    def put_back(self) -> Project:
        """Restore the project, with the times of its files, and the instance."""
        self._history.put_back()
        shutil.rmtree(self._project.folder)
        shutil.copytree(self._copy, self._project.folder)
        restore_change_times(self._project.folder, self._times)
        return copy.deepcopy(self._project)


class BuiltGraph:
    """A copy of a graph and of what was run."""

    def __init__(self, graph: Graph) -> None:
        self._built = BuiltProject(graph.project, graph.instance)

    def put_back(self) -> Graph:
        """Restore the graph."""
        return Graph(self._built.put_back(), self._built.instance)


class SettledDaemon:
    """A copy of a daemon and of what it has done."""

    def __init__(self, daemon: Daemon) -> None:
        self._built, self._cursors = BuiltProject(daemon.project, daemon.instance), dict(daemon.cursors)

    def put_back(self) -> Daemon:
        """Restore the daemon with its cursors."""
        return Daemon(self._built.put_back(), self._built.instance, dict(self._cursors))
