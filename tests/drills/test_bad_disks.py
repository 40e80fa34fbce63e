"""Disks that fill up or fail at random: a `HeadraceError`, the old snapshot stays, the next build succeeds."""

import shutil

import pytest

from headrace.stores.storage import LocalStorage
from tests.support.drills.apart import apart
from tests.support.drills.disk import Trouble
from tests.support.drills.subjects import change, check_readers, check_whole, tones, visible, yaml_of
from tests.support.drills.works import build, build_on, command_on, gc_on

WORDS = {Trouble.FULL: "No space left on device", Trouble.FAIL: "Input/output error"}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project that was built from other recordings before, and its output as it was then."""
    made = tones(tmp_path_factory.mktemp("disks"))
    change(made, "two")
    apart(build, yaml_of(made)).well()
    shutil.copytree(made.output, made.folder / "two")
    change(made, "three")
    return made


def put_back(project, state: str | None) -> None:
    shutil.rmtree(project.output, ignore_errors=True)
    if state is not None:
        shutil.copytree(project.folder / state, project.output)


@pytest.mark.parametrize("trouble", WORDS, ids=["full", "failing"])
def test_builds_on_a_disk_that_is(project, drill, trouble):
    """The disk of the output; from the first build on, or from an update."""
    change(project, "three")
    num_accesses, wanted = {}, {}
    for start in (None, "two"):
        put_back(project, start)
        num_accesses[start], _ = apart(build_on, yaml_of(project), project.output, None, trouble).well()
        wanted[start] = visible(project.output)

    def one_round(chance):
        start = chance.choice([None, "two"])
        put_back(project, start)
        moment = chance.randrange(num_accesses[start])
        done = apart(build_on, yaml_of(project), project.output, moment, trouble)
        if done.error:
            assert WORDS[trouble] in done.error, done.error
            assert str(project.output) in done.error or "/" in done.error.partition(": ")[2], done.error
            if trouble is Trouble.FULL:  # removing it may fail as well, and gc removes it some day
                assert not list(project.output.rglob("*.headrace-tmp")), "left behind"
        assert check_readers(LocalStorage(project.output)) >= (2 if start else 0)
        apart(build, yaml_of(project)).well()
        assert visible(project.output) == wanted[start]
        return "a named error" if done.error else f"went round it: {done.value[1].split()[0]}"

    drill.repeat(one_round, small=3, full=40)
    check_whole(project)


def test_builds_whose_recordings_fail_to_be_read(project, drill):
    """Unreadable recordings are rows in the rejects, or end the build, and are samples once they can be read."""
    change(project, "three")
    put_back(project, None)
    num_accesses, _ = apart(build_on, yaml_of(project), project.recordings, None, Trouble.FAIL).well()

    def one_round(chance):
        put_back(project, None)
        done = apart(build_on, yaml_of(project), project.recordings, chance.randrange(num_accesses), Trouble.FAIL)
        apart(build, yaml_of(project)).well()
        check_whole(project)
        return "a named error" if done.error else "a row in the rejects"

    drill.repeat(one_round, small=3, full=40)


@pytest.mark.parametrize("trouble", WORDS, ids=["full", "failing"])
def test_gc_and_export_on_a_disk_that_is(project, drill, trouble):
    change(project, "three")
    put_back(project, "two")
    apart(build, yaml_of(project)).well()
    shutil.rmtree(project.folder / "three", ignore_errors=True)
    shutil.copytree(project.output, project.folder / "three")
    target = project.folder / "exported"
    words = ["export", str(project.output), str(target)]
    num_export, *_ = apart(command_on, words, target, None, trouble).well()
    num_gc, _ = apart(gc_on, project.output, project.output, None, trouble).well()
    wanted = visible(target), visible(project.output)

    def one_round(chance):
        put_back(project, "three")
        shutil.rmtree(target, ignore_errors=True)
        _, _, code, said = apart(command_on, words, target, chance.randrange(num_export), trouble).well()
        assert (code, WORDS[trouble] in said) == (1, True) or code == 0, said
        yield f"export: {'a named error' if code else 'went round it'}"
        _, _, code, said = apart(command_on, words, target, None, trouble).well()
        assert (code, visible(target)) == (0, wanted[0]), said
        done = apart(gc_on, project.output, project.output, chance.randrange(num_gc), trouble)
        assert not done.error or WORDS[trouble] in done.error, done.error
        check_readers(LocalStorage(project.output))
        apart(build, yaml_of(project)).well()
        apart(gc_on, project.output, project.output, None, trouble).well()
        check_whole(project)
        assert visible(project.output) == wanted[1]
        yield f"gc: {'a named error' if done.error else 'went round it'}"

    drill.repeat(one_round, small=2, full=20)
