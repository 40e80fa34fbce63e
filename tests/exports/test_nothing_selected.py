"""A selection without samples is one error for every form of export, and an earlier export stays as it is."""

import pytest

from headrace.cli import main
from headrace.exports.kinds import KINDS
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.view_fixtures import write_view

SELECTIONS = {
    "a split without samples": (("--split", "test"), "split 'test'"),
    "a split without samples, with columns": (("--split", "test", "--columns", "levels"), "split 'test'"),
    "a split without samples, with latents": (("--split", "test", "--latents", "crepe"), "split 'test'"),
    "a view of a split without samples": (("--view", "some", "--split", "test"), "view 'some' of split 'test'"),
    "a view with nothing in the split": (("--view", "some", "--split", "dev"), "view 'some' of split 'dev'"),
}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("output") / "birds"
    samples = {"train": clips(3), "dev": clips(2, first=100), "test": ()}
    write_dataset(folder, samples, per_shard=2, latents=True)
    write_columns(folder, "levels", {"loud": ("float", lambda _: 0.5)})
    write_view(folder, "some", lambda key: int(key < "clip00100"))
    return folder


def files_of(target):
    return {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}


@pytest.fixture
def export(output, tmp_path, capsys):
    """A function that exports to one target; it returns the exit code, what was said and the files there."""

    def run(*options):
        code = main(["export", str(output), str(tmp_path / "out"), *options])
        shown = capsys.readouterr()
        return code, " ".join((shown.out + shown.err).split()), files_of(tmp_path / "out")

    return run


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize(("options", "named"), SELECTIONS.values(), ids=SELECTIONS)
def test_a_selection_without_samples_is_an_error_that_names_it(export, to, options, named):
    code, _, before = export("--to", to)
    assert code == 0
    code, said, after = export("--to", to, *options)
    assert code == 1
    assert f"{named} has 0 samples" in said
    assert "another split" in said
    assert after == before


@pytest.mark.parametrize("to", KINDS)
def test_splits_without_samples_are_left_out_of_an_export_of_all(export, to):
    code, said, _ = export("--to", to, "--view", "some")
    assert code == 0
    assert "3 samples" in said


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("view", [True, False], ids=["view", "no view"])
def test_an_output_without_samples_is_the_same_error(tmp_path, capsys, to, view):
    output = tmp_path / "birds"
    write_dataset(output, {"train": ()})
    write_view(output, "some", lambda _: 1)
    options = ("--view", "some") if view else ()
    assert main(["export", str(output), str(tmp_path / "out"), "--to", to, *options]) == 1
    named = "view 'some'" if view else "the snapshot"
    assert f"{named} has 0 samples" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()
