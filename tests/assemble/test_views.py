"""Building views: counts of all samples from columns, committed as snapshots that share what has not changed."""

from collections import Counter

import numpy as np
import pytest

from headrace.assemble.views import WantedView, build_view, is_up_to_date, newest_view
from headrace.errors import AlreadyExistsError, ConfigError, FormatError, IntegrityError, NotFoundError
from headrace.format.beside import view_files
from headrace.format.beside.view_files import partitions_of, read_counts, read_totals, read_view
from headrace.format.beside.views import Balance, ViewDefinition, counts_of
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.locate.outputs import view_folders
from headrace.stores.storage import LocalStorage
from headrace.verification.view_check import faults_of_view
from headrace.views.names import NoColumnError
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import clips, write_dataset

SAMPLES = {"train": clips(23), "test": clips(7, first=200)}


def number(key):
    return int(key.removeprefix("clip"))


SPEAKERS = {"speaker": ("string", lambda key: None if number(key) % 5 == 0 else "ab"[number(key) % 7 == 0])}
QUALITY = {"snr": ("float", lambda key: float(number(key)))}


def wanted(where=None, balance=None, name="some"):
    return WantedView(name, ViewDefinition(where, balance), ("metadata", "quality"))


@pytest.fixture
def output(tmp_path):
    write_dataset(tmp_path, SAMPLES)
    write_columns(tmp_path, "metadata", SPEAKERS)
    write_columns(tmp_path, "quality", QUALITY)
    return LocalStorage(tmp_path)


def counts(output, view):
    """Key → count, for all samples, from the files of a view."""
    audio = output.at("audio")
    table = read_table(audio, read_snapshot(audio, view.snapshot.audio_snapshot).snapshot)
    found = {}
    for partition, rows in partitions_of(table):
        indexes = [read_index(audio, table.name(row)) for row in range(rows.start, rows.stop)]
        keys = [index.key(row) for index in indexes for row in range(len(index))]
        file = view.snapshot.counts.get(partition)
        folder = output.at("views/some")
        own = np.zeros(len(keys), np.uint8) if file is None else counts_of(read_counts(folder, file), file.name)
        found |= dict(zip(keys, own.tolist(), strict=True))
    return found


@pytest.mark.medium
def test_a_filter_counts_what_fulfils_the_condition(output):
    view, is_new = build_view(output, wanted("snr >= 10 and speaker is not null"))
    found = counts(output, view)
    assert is_new
    assert found == {
        clip.key: int(clip.number >= 10 and clip.number % 5 != 0) for clips in SAMPLES.values() for clip in clips
    }
    assert view.snapshot.num_chosen == view.snapshot.num_drawn == sum(found.values())
    assert {origin.set for origin in view.snapshot.columns} == {"metadata", "quality"}


def test_balance_makes_groups_equal_over_all_splits(output):
    view, _ = build_view(output, wanted("snr < 100 or snr > 202", Balance("speaker", 0.0)))
    found = counts(output, view)
    speaker = SPEAKERS["speaker"][1]
    totals = Counter()
    for key, count in found.items():
        totals[speaker(key)] += count
    assert set(totals) == {None, "a", "b"}
    assert len(set(totals.values())) == 1
    assert found["clip00200"] == 0
    assert view.snapshot.num_drawn == sum(totals.values())


@pytest.mark.medium
def test_times_counts_in_two_bytes_also_where_no_sample_is_chosen(output):
    definition = ViewDefinition("snr < 4", None, "if(snr = 3, 300, snr)")
    view, _ = build_view(output, WantedView("some", definition, ("metadata", "quality")))
    assert {key: count for key, count in counts(output, view).items() if count} == {
        "clip00001": 1, "clip00002": 2, "clip00003": 300
    }  # fmt: skip
    assert str(view.snapshot.definition) == "where snr < 4, times if(snr = 3, 300, snr)"
    assert list(faults_of_view(output, view_folders(output)[0])) == []
    assert read_view(output.at("views/some")) == view


@pytest.mark.medium
@pytest.mark.parametrize("alpha", [0.3, 0.5, 1.0])
def test_balance_follows_the_formula(output, alpha):
    view, _ = build_view(output, wanted(None, Balance("metadata.speaker", alpha)))
    found = counts(output, view)
    speaker = SPEAKERS["speaker"][1]
    sizes = Counter(map(speaker, found))
    for group, size in sizes.items():
        times = (max(sizes.values()) / size) ** (1 - alpha)
        own = [count for key, count in found.items() if speaker(key) == group]
        assert set(own) <= {int(times), int(times) + 1}
        assert own.count(int(times) + 1) == round(size * (times - int(times)))


def test_an_equal_view_is_not_committed_again_and_a_changed_one_shares_its_files(output):
    first, _ = build_view(output, wanted("snr < 5 or snr > 203"))
    again, is_new = build_view(output, wanted("snr < 5 or snr > 203"))
    assert (again.number, is_new) == (1, False)
    changed, is_new = build_view(output, wanted("snr < 6 or snr > 203"))
    assert (changed.number, is_new) == (2, True)
    assert changed.snapshot.counts["test-0000"] == first.snapshot.counts["test-0000"]
    assert changed.snapshot.counts["train-0000"] != first.snapshot.counts["train-0000"]
    assert changed.snapshot.fingerprint != first.snapshot.fingerprint


@pytest.mark.medium
def test_the_same_input_gives_the_same_bytes(tmp_path):
    made = []
    for name in ("one", "two"):
        write_dataset(tmp_path / name, SAMPLES)
        write_columns(tmp_path / name, "metadata", SPEAKERS)
        build_view(LocalStorage(tmp_path / name), wanted(None, Balance("speaker", 0.5)))
        files = sorted((tmp_path / name / "views/some").rglob("*.*"))
        made.append([(path.name, path.read_bytes()) for path in files])
    assert made[0] == made[1]


def test_partitions_without_chosen_samples_have_no_file(output):
    view, _ = build_view(output, wanted("split = 'test'"))
    assert set(view.snapshot.counts) == {"test-0000"}
    assert view.snapshot.splits["train"].num_drawn == 0


def test_a_view_that_chooses_nothing_is_an_error_and_the_last_snapshot_stays(output):
    build_view(output, wanted("snr > 3"))
    with pytest.raises(ConfigError, match=r"the view \(where snr > 300\) chooses none of 30 samples"):
        build_view(output, wanted("snr > 300"))
    assert newest_view(output, wanted()).snapshot.definition.where == "snr > 3"


@pytest.mark.medium
def test_a_view_is_up_to_date_until_audio_columns_or_definition_change(output, tmp_path):
    view = wanted("snr > 3")
    assert not is_up_to_date(output, view)
    build_view(output, view)
    assert is_up_to_date(output, view)
    write_columns(tmp_path, "metadata", {**SPEAKERS, "new": ("int", lambda key: 1)})
    assert is_up_to_date(output, view)  # it does not read this set
    assert not is_up_to_date(output, wanted("snr > 4"))
    assert not is_up_to_date(output, wanted("snr > 3", Balance("speaker", 0.5)))
    write_columns(tmp_path, "quality", {"snr": ("float", lambda key: 9.0)})
    assert not is_up_to_date(output, view)
    build_view(output, view)
    write_dataset(tmp_path, {"train": clips(9)})
    assert not is_up_to_date(output, view)
    write_columns(tmp_path, "quality", QUALITY)
    build_view(output, view)
    assert is_up_to_date(output, view)


@pytest.mark.medium
def test_columns_that_do_not_fit_the_newest_audio_are_named(output, tmp_path):
    write_dataset(tmp_path, {"train": clips(9)})
    with pytest.raises(NoColumnError, match=r"view 'some': .*no column snr.*: metadata, quality"):
        build_view(output, wanted("snr > 3"))


def test_without_audio_there_is_no_view(tmp_path):
    with pytest.raises(NotFoundError):
        build_view(LocalStorage(tmp_path), wanted("true"))


def test_a_writer_that_lost_the_race_makes_the_view_again(output, monkeypatch):
    real, calls = LocalStorage.create, []

    def create(self, path, data):
        calls.append(path)
        if len(calls) == 1:
            build_view(output, wanted("snr > 9"))
        real(self, path, data)

    monkeypatch.setattr(LocalStorage, "create", create)
    view, is_new = build_view(output, wanted("snr > 8"))
    assert (view.number, is_new) == (2, True)
    assert view.snapshot.definition.where == "snr > 8"


def test_a_commit_that_names_files_that_a_gc_deletes_is_withdrawn(output, monkeypatch):
    monkeypatch.setattr(view_files, "missing_files", lambda storage, snapshot: [snapshot.totals.path])
    with pytest.raises(Exception, match="other writers committed first 5 times"):
        build_view(output, wanted("snr > 8"))
    assert newest_view(output, wanted()) is None
    assert issubclass(AlreadyExistsError, OSError)


def read_all(folder, view):
    read_view(folder)
    read_totals(folder, view.snapshot)
    for file in view.snapshot.counts.values():
        read_counts(folder, file)


def test_what_a_killed_writer_leaves_is_not_seen_and_the_next_build_finishes(output, monkeypatch):
    first, _ = build_view(output, wanted("snr > 3"))

    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "create", killed)
        with pytest.raises(KeyboardInterrupt):
            build_view(output, wanted("snr > 5"))
    folder = output.at("views/some")
    left = {entry.path for entry in folder.list()} - {file.path for file in first.snapshot.files}
    assert any(path.endswith(".counts") for path in left)
    assert newest_view(output, wanted()).number == 1
    again, is_new = build_view(output, wanted("snr > 5"))
    assert (again.number, is_new) == (2, True)
    assert left - {"snapshots/00000001.json"} <= {file.path for file in again.snapshot.files}


@pytest.mark.medium
@pytest.mark.parametrize("suffix", [".json", ".totals", ".counts"])
def test_damage_is_an_error_that_names_the_file(output, tmp_path, suffix):
    view, _ = build_view(output, wanted("snr > 3"))
    folder = output.at("views/some")
    (path, *_) = sorted((tmp_path / "views/some/snapshots").glob(f"*{suffix}"))
    blob = bytearray(path.read_bytes())
    blob[-7] ^= 1
    path.chmod(0o644)
    path.write_bytes(blob)
    with pytest.raises((FormatError, IntegrityError), match=path.name):
        read_all(folder, view)


@pytest.mark.medium
def test_damaged_counts_are_written_again(output, tmp_path):
    view, _ = build_view(output, wanted("snr > 3"))
    path = tmp_path / "views/some" / view.snapshot.counts["train-0000"].path
    sound = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(sound[:-1] + b"?")
    build_view(output, wanted("snr > 3"))
    newest = newest_view(output, wanted()).snapshot
    assert read_counts(output.at("views/some"), newest.counts["train-0000"]) == sound
