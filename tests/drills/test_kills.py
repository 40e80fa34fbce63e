"""Processes killed at random moments: the next one ends as if nothing had happened, and readers never notice."""

import shutil
import time
from pathlib import Path

import pytest

from headrace.stores.storage import LocalStorage
from tests.support.drills.apart import Apart, apart
from tests.support.drills.disk import Trouble
from tests.support.drills.subjects import change, check_readers, check_whole, tones, visible, yaml_of
from tests.support.drills.works import build, build_on, command, command_on, gc_on
from tests.support.tars import tar_of


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Three builds of a project, each of other recordings; copies of its output as it was after each."""
    made = tones(tmp_path_factory.mktemp("kills"))
    for state in ("one", "two", "three"):
        change(made, state)
        apart(build, yaml_of(made)).well()
        shutil.copytree(made.output, made.folder / state)
    return made


def put_back(project, state: str | None) -> None:
    """The output as it was, or none."""
    shutil.rmtree(project.output, ignore_errors=True)
    if state is not None:
        shutil.copytree(project.folder / state, project.output)


def killed(chance, work, *args, seconds: float | None, num_accesses: int, folder: Path) -> str:
    """Kill some work: at an access to the disk (half of them in its second half), or within the seconds if given."""
    moment = None if seconds else chance.randrange(chance.choice([0, num_accesses // 2]), num_accesses)
    child = Apart(work, *args, folder, moment, Trouble.KILL)
    child.join(chance.uniform(0, seconds) if seconds else 120)
    return "killed" if child.kill() else "was done before"


@pytest.mark.parametrize("start", [None, "two"], ids=["the first build", "an update"])
def test_builds_killed(project, drill, start):
    """At any access to the disk, or at any time, one to three times in a row."""
    change(project, "three")
    put_back(project, start)
    began = time.monotonic()
    num_accesses, _ = apart(build_on, yaml_of(project), project.output, None, Trouble.KILL).well()
    seconds, wanted = time.monotonic() - began, visible(project.output)

    def one_round(chance):
        put_back(project, start)
        for _ in range(chance.choice([1, 1, 2, 3])):
            limit = seconds if chance.random() < 0.3 else None
            yield killed(
                chance, build_on, yaml_of(project), seconds=limit, num_accesses=num_accesses, folder=project.output
            )
            assert check_readers(LocalStorage(project.output)) >= (4 if start else 0)
        apart(build, yaml_of(project)).well()
        assert visible(project.output) == wanted

    drill.repeat(one_round, small=2, full=50)
    check_whole(project)


def test_gc_killed(project, drill):
    """Then another gc, or first a build that goes back to what the killed one was removing."""
    put_back(project, "three")
    num_accesses, _ = apart(gc_on, project.output, project.output, None, Trouble.KILL).well()
    wanted = visible(project.output)

    def one_round(chance):
        put_back(project, "three")
        killed(chance, gc_on, project.output, seconds=None, num_accesses=num_accesses, folder=project.output)
        gone = len(list((project.folder / "three").rglob("*"))) - len(list(project.output.rglob("*")))
        is_recorded = bool(list(project.output.glob("**/condemned/*.json")))
        assert check_readers(LocalStorage(project.output)) >= 2
        if chance.random() < 0.5:
            change(project, "one")
            apart(build, yaml_of(project)).well()
            check_readers(LocalStorage(project.output))
            apart(gc_on, project.output, project.output, None, Trouble.KILL).well()
        else:
            change(project, "three")
            apart(gc_on, project.output, project.output, None, Trouble.KILL).well()
            assert visible(project.output) == wanted
        check_whole(project)
        return "while it deleted" if gone > 0 else "with its record there" if is_recorded else "before its record"

    drill.repeat(one_round, small=2, full=70)


def test_export_killed(project, drill):
    """Into an empty folder, or over the export of an earlier snapshot."""
    put_back(project, "three")
    target, wanted = project.folder / "exported", {}
    num_accesses = {}
    for former in (None, 2):
        shutil.rmtree(target, ignore_errors=True)
        if former:
            command(["export", str(project.output), str(target), "--snapshot", str(former)])
        words = ["export", str(project.output), str(target)]
        num_accesses[former], _, code, said = apart(command_on, words, target, None, Trouble.KILL).well()
        assert code == 0, said
        wanted[former] = visible(target)

    def one_round(chance):
        shutil.rmtree(target, ignore_errors=True)
        former = chance.choice([None, 2])
        words = ["export", str(project.output), str(target)]
        if former:
            command([*words, "--snapshot", str(former)])
        for _ in range(chance.choice([1, 2])):
            yield killed(chance, command_on, words, seconds=None, num_accesses=num_accesses[former], folder=target)
        code, said = command(words)
        assert code == 0, said
        assert visible(target) == wanted[former]
        assert command(["verify", str(target)])[0] == 0

    drill.repeat(one_round, small=3, full=30)
    assert visible(project.output) == visible(project.folder / "three")  # whose tars the export may have linked


def test_index_killed(tmp_path, drill):
    folder, members = tmp_path / "theirs", {}
    folder.mkdir()
    for number in range(8):
        members = {f"{number}{i}.{field}": f"{field} {i}".encode() * 50 for i in range(4) for field in ("cls", "json")}
        (folder / f"a{number}.tar").write_bytes(tar_of(members))
    shutil.copytree(folder, tmp_path / "start")
    words = ["index", str(folder)]
    num_accesses, *_ = apart(command_on, words, folder, None, Trouble.KILL).well()
    wanted = visible(folder)

    def one_round(chance):
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "start", folder)
        for _ in range(chance.choice([1, 2])):
            yield killed(chance, command_on, words, seconds=None, num_accesses=num_accesses, folder=folder)
            assert {name: data for name, data in visible(folder).items() if name.endswith(".tar")} == visible(
                tmp_path / "start"
            )
        code, said = command(words)
        assert code == 0, said
        assert visible(folder) == wanted

    drill.repeat(one_round, small=3, full=30)


def test_verify_killed(project, drill):
    put_back(project, "three")
    words = ["verify", str(project.output)]
    before = visible(project.output)
    num_accesses, *_ = apart(command_on, words, project.output, None, Trouble.KILL).well()

    def one_round(chance):
        yield killed(chance, command_on, words, seconds=None, num_accesses=num_accesses, folder=project.output)
        assert visible(project.output) == before
        code, said = command(words)
        assert code == 0, said

    drill.repeat(one_round, small=2, full=20)
    assert not [path for path in project.output.rglob(".*") if path.is_file()]
