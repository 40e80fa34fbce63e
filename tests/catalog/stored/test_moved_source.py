"""An output belongs to one data set: another one, or another source, replaces it only if the YAML says so."""


import pytest

from tests.support.projects import Graph, Project

pytestmark = pytest.mark.usefixtures("undrawn")


def project_in(folder, tones, output, name="tones"):
    """A project with tones of these frequencies, which writes to an output."""
    project = Named(folder, name)
    for hz in tones:
        project.write_tone(f"tone{hz}", hz=hz)
    project.write_yaml(output={"uri": str(output)})
    return project


class Named(Project):
    """A project whose data set has another name."""

    def __init__(self, folder, name):
        super().__init__(folder)
        self.name = name

    def config(self):
        return super().config().model_copy(update={"name": self.name})


def scan(project):
    """Scan a project. Returns the message of the failure, or None."""
    result = Graph(project).scan_named(project.name) if False else Graph(project).scan()
    faults = [event for event in result.all_events if event.is_step_failure]
    return faults[0].step_failure_data.user_failure_data.description if faults else None
