"""Fields of every kind: builds killed in the middle of them, and flipped bits in them."""

import random
import shutil

import pytest

from headrace.stores.storage import LocalStorage
from tests.support.drills.apart import Apart, apart
from tests.support.drills.disk import Trouble
from tests.support.drills.kinds import KINDS, every_kind
from tests.support.drills.scale import rounds
from tests.support.drills.subjects import check_readers, visible, yaml_of
from tests.support.drills.works import build, build_on, command

FOLDERS = tuple(sorted({kind.folder for kind in KINDS.values()}))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with a field of every kind, built, its output kept beside it."""
    made = every_kind(tmp_path_factory.mktemp("kinds"))
    apart(build, yaml_of(made)).well()
    shutil.copytree(made.output, made.folder / "kept")
    return made


@pytest.fixture
def output(project):
    shutil.rmtree(project.output)
    shutil.copytree(project.folder / "kept", project.output)
    return project.output


@pytest.mark.parametrize("name", KINDS)
def test_a_flipped_bit_is_an_error_by_name_and_a_new_build_mends_it(project, output, name):
    """`verify` names the file, the reader raises an error that names it, and what is removed is built as it was."""
    kind, wanted = KINDS[name], visible(project.folder / "kept")
    values = kind.read(output)
    assert len(set(values.values())) > 1
    victim = kind.flip(output)
    assert victim.name in kind.outcome(output)
    code, said = command(["verify", str(output), "--json"])
    assert (code, victim.name in said) == (1, True), said
    for path in output.joinpath(kind.folder).glob(f"{victim.stem}*"):  # with the index
        path.unlink()
    apart(build, yaml_of(project)).well()
    assert visible(output) == wanted
    assert kind.read(output) == values


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_build_killed_at_any_access_to_a_folder_is_completed_with_the_same_bytes(project, output, folder):
    """Of a set of latents or columns, with the centroids that it fits."""
    wanted, moments = visible(output), random.Random(folder)
    shutil.rmtree(output / folder)
    num_accesses, _ = apart(build_on, yaml_of(project), output / folder, None, Trouble.KILL).well()
    assert visible(output) == wanted
    for number in range(rounds(2, 20)):
        shutil.rmtree(output / folder)
        late = number % 2 * num_accesses // 2  # every other one in the second half
        child = Apart(build_on, yaml_of(project), output / folder, moments.randrange(late, num_accesses), Trouble.KILL)
        assert child.join(60)
        assert child.kill() is True
        check_readers(LocalStorage(output), FOLDERS)
        apart(build, yaml_of(project)).well()
        assert visible(output) == wanted


def test_a_flipped_bit_in_centroids_stops_the_build_and_no_unit_changes(project, output):
    wanted = visible(output)
    (path,) = (output / "latents/units/centroids").glob("*.npy")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert path.name in apart(build, yaml_of(project)).error
    code, said = command(["verify", str(output), "--json"])
    assert (code, path.name in said) == (1, True), said
    path.write_bytes(whole)
    assert path.name not in command(["verify", str(output)])[1]  # nor among what is not looked at
    apart(build, yaml_of(project)).well()
    assert visible(output) == wanted
