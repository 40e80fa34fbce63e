"""Several builds, gcs and readers work on one output, in a folder and in a bucket, also over a bad connection."""

import shutil
import time
import urllib.request

import pytest

from headrace.format.snapshots.snapshots import read_snapshot
from headrace.stores.storage import LocalStorage, open_storage
from tests.support.drills.apart import Apart, apart
from tests.support.drills.bad_proxy import bad_proxy
from tests.support.drills.subjects import change, check_readers, check_whole, objects, tones, visible, yaml_of
from tests.support.drills.works import build, gc, gc_again_and_again, read_again_and_again
from tests.support.s3 import new_bucket


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with three builds behind it; copies of its output after each."""
    made = tones(tmp_path_factory.mktemp("together"))
    for state in ("one", "two", "three"):
        change(made, state)
        apart(build, yaml_of(made)).well()
        shutil.copytree(made.output, made.folder / state)
    return made


def put_back(project, state):
    shutil.rmtree(project.output, ignore_errors=True)
    if state is not None:
        shutil.copytree(project.folder / state, project.output)


def outcomes(builds) -> list[str]:
    """Outcomes of builds: done, or the name of a `HeadraceError`."""
    return [f"stopped by {error.partition(':')[0]}" if (error := b.done().error) else "built" for b in builds]


def test_two_builds_on_one_folder(project, drill):
    change(project, "three")
    wanted = {None: visible(project.folder / "three")}
    for start in (None, "two"):
        put_back(project, start)
        apart(build, yaml_of(project)).well()
        wanted[start] = visible(project.output)

    def one_round(chance):
        start = chance.choice([None, "two"])
        put_back(project, start)
        first = Apart(build, yaml_of(project))
        first.join(chance.choice([0, 0, chance.uniform(0, 0.5)]))
        came = outcomes([first, Apart(build, yaml_of(project))])
        check_readers(LocalStorage(project.output))
        if "built" not in came:
            apart(build, yaml_of(project)).well()
        assert visible(project.output) == wanted[start]
        return came

    drill.repeat(one_round, small=3, full=20)
    check_whole(project)


@pytest.fixture
def in_bucket(tmp_path_factory, s3_server, monkeypatch):
    """A small project whose output is a bucket: the project, and a function that gives it another, empty one."""
    made = tones(tmp_path_factory.mktemp("bucket"), 10, shards={"samples_per_shard": 3, "partitions": {"train": 2}})

    def renew():
        uri = new_bucket(s3_server, monkeypatch)
        made.write_yaml(output={"uri": uri})
        return open_storage(uri)

    return made, renew


def test_two_builds_on_one_bucket(in_bucket, drill):
    project, renew = in_bucket
    output = renew()
    apart(build, yaml_of(project)).well()
    wanted = objects(output)

    def one_round(chance):
        output = renew()
        first = Apart(build, yaml_of(project))
        first.join(chance.choice([0, 0, chance.uniform(0, 1)]))
        came = outcomes([first, Apart(build, yaml_of(project))])
        check_readers(output)
        if "built" not in came:
            apart(build, yaml_of(project)).well()
        assert objects(output) == wanted
        return came

    drill.repeat(one_round, small=2, full=12)


def test_builds_on_a_bucket_behind_a_bad_line(in_bucket, s3_server, monkeypatch, drill):
    project, renew = in_bucket
    output = renew()
    apart(build, yaml_of(project)).well()
    wanted = objects(output)

    def one_round(chance):
        output = renew()
        with bad_proxy(s3_server) as proxy, monkeypatch.context() as patch:
            proxy.chance, proxy.share = chance, chance.choice([0.02, 0.06, 0.15])
            patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
            came = outcomes([Apart(build, yaml_of(project)) for _ in range(chance.choice([1, 1, 2]))])
        assert output.uri.startswith("s3://")
        check_readers(output)
        apart(build, yaml_of(project)).well()
        assert objects(output) == wanted
        faults = {word: number for word, number in proxy.came.items() if word != "passed on"}
        return [*came, *(f"request: {word}" for word, number in faults.items() for _ in range(number))]

    drill.repeat(one_round, small=2, full=16)


def test_gc_beside_builds_and_readers(project, drill):
    """Every gc takes all files for old and keeps one snapshot. Builds go back to what it removes; some are killed.

    Temporary files count as old, too, so that one gc may remove what another is writing, which then stops.
    """

    def one_round(chance):
        put_back(project, "three")
        change(project, chance.choice(["one", "two"]))
        until = time.time() + 1.5
        others = [Apart(gc_again_and_again, str(project.output), until, chance.random()) for _ in range(2)]
        reader = Apart(read_again_and_again, str(project.output), until)
        builds = []
        for _ in range(3):
            builds.append(Apart(build, yaml_of(project)))
            builds[-1].join(chance.uniform(0, 0.8))
        dead = chance.sample(builds, 1) if chance.random() < 0.5 else []
        for child in dead:
            child.kill()
        came = outcomes(set(builds) - set(dead))
        if chance.random() < 0.3:
            others.pop().kill()
        came += [word.replace("built", "gc done").replace("stopped", "gc stopped") for word in outcomes(others)]
        came += reader.done().well()
        check_readers(LocalStorage(project.output))
        apart(build, yaml_of(project)).well()
        apart(gc, str(project.output)).well()
        check_whole(project)
        return [*came, *(["build killed"] * len(dead))]

    drill.repeat(one_round, small=2, full=24)


def test_gc_beside_builds_on_a_bucket(in_bucket, drill):
    """Builds go back to recordings whose shards a gc removes, as in the test of a folder."""
    project, renew = in_bucket
    number = len(list(project.recordings.glob("tone*.wav")))

    def one_round(chance):
        output = renew()
        for state in (0, 1):
            project.write_tone("tone000", hz=300 + 100 * state)
            apart(build, yaml_of(project)).well()
        project.write_tone("tone000", hz=300)
        until = time.time() + 3
        others = [Apart(gc_again_and_again, output.uri, until, chance.random()) for _ in range(2)]
        reader = Apart(read_again_and_again, output.uri, until)
        builds = []
        for _ in range(2):
            builds.append(Apart(build, yaml_of(project)))
            builds[-1].join(chance.uniform(0, 1.5))
        came = outcomes(builds)
        came += [word.replace("built", "gc done").replace("stopped", "gc stopped") for word in outcomes(others)]
        came += reader.done().well()
        check_readers(output)
        apart(build, yaml_of(project)).well()
        check_whole(project, output)
        assert read_snapshot(output.at("audio")).snapshot.num_samples == number
        return came

    drill.repeat(one_round, small=1, full=10)


def test_the_store_of_these_drills_answers(s3_server):
    with bad_proxy(s3_server) as proxy:
        assert urllib.request.urlopen(f"http://127.0.0.1:{proxy.port}/").status == 200
