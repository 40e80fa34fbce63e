import hashlib

import polars as pl
import pytest

from headrace.catalog.rows.recordings import combined_digest, fingerprint_of
from headrace.catalog.stored.partitions import PARTITION, recordings_of
from headrace.catalog.stored.parts import existing_catalog
from headrace.config.partitioning import Partitioning
from headrace.errors import ConfigError
from tests.support.builds import Project
from tests.support.catalog_fakes import fingerprints, with_partitions

LAYOUT = Partitioning({"train": 0.5, "test": 0.5}, {"train": 3}, 4)


@pytest.fixture
def rows(tmp_path):
    """Thirty recordings by five artists. Every tenth has no artist."""
    project = Project(tmp_path)
    names = [f"clip{number:02d}.wav" for number in range(30)]
    for name in names:
        project.put(name)
    artists = [None if number % 10 == 9 else f"artist {number % 5}" for number in range(30)]
    project.metadata = pl.DataFrame({"path": names, "artist": artists, "chords": [[number] for number in range(30)]})
    project.build()
    return existing_catalog(project.output).recordings()


@pytest.mark.medium
def test_a_group_never_crosses_partitions(rows):
    divided = with_partitions(rows, LAYOUT, "artist")
    artists = [recording.metadata["artist"] for recording in recordings_of(divided)]
    places = {}
    for artist, partition in zip(artists, divided[PARTITION], strict=True):
        places.setdefault(artist, set()).add(partition)
    assert all(len(found) == 1 for artist, found in places.items() if artist is not None)
    assert len({partition for found in places.values() for partition in found}) > 1


@pytest.mark.medium
def test_the_error_about_a_group_column_of_lists_names_it(rows):
    with pytest.raises(ConfigError, match="group_by: the metadata column 'chords' holds lists"):
        with_partitions(rows, LAYOUT, "chords")


@pytest.mark.medium
def test_a_recording_without_a_group_is_its_own_group(rows):
    by_artist = dict(with_partitions(rows, LAYOUT, "artist").select("path", PARTITION).iter_rows())
    by_path = dict(with_partitions(rows, LAYOUT, None).select("path", PARTITION).iter_rows())
    assert all(by_artist[f"clip{number:02d}.wav"] == by_path[f"clip{number:02d}.wav"] for number in (9, 19, 29))


@pytest.mark.medium
def test_the_error_about_an_unknown_group_column_names_the_existing_columns(rows):
    with pytest.raises(ConfigError, match=r"no column 'singer'; its columns are 'artist', 'chords'"):
        with_partitions(rows, LAYOUT, "singer")


@pytest.mark.medium
def test_the_fingerprint_of_a_partition_depends_only_on_its_own_recordings(rows):
    before = fingerprints(with_partitions(rows, LAYOUT, None), LAYOUT)
    assert list(before) == LAYOUT.partition_keys()
    changed = rows.with_columns(
        pl.when(pl.col("path") == "clip07.wav")
        .then(pl.lit("0" * 32))
        .otherwise("recording_digest")
        .alias("recording_digest")
    )
    divided = with_partitions(changed, LAYOUT, None)
    after = fingerprints(divided, LAYOUT)
    (own,) = divided.filter(pl.col("path") == "clip07.wav")[PARTITION]
    assert [name for name in before if before[name] != after[name]] == [own]
    empty = fingerprints(with_partitions(rows.clear(), LAYOUT, None), LAYOUT)
    assert len(set(empty.values())) == 1


@pytest.mark.medium
def test_the_fingerprint_of_a_partition_does_not_depend_on_the_order_of_recordings(rows):
    divided = with_partitions(rows, LAYOUT, None)
    for partition, fingerprint in fingerprints(divided, LAYOUT).items():
        recordings = recordings_of(divided.filter(pl.col(PARTITION) == partition))
        assert fingerprint_of(recordings) == fingerprint_of(recordings[::-1]) == fingerprint


def test_a_combined_digest_is_the_digest_of_lines():
    digests = [f"{number:032x}" for number in range(2011)]
    assert combined_digest(pl.Series(digests)) == hashlib.sha256("\n".join(digests).encode()).hexdigest()
    assert combined_digest([]) == hashlib.sha256(b"").hexdigest()


@pytest.mark.medium
def test_values_contain_the_users_columns_with_lists_as_lists(rows):
    recording = next(value for value in recordings_of(rows) if value.path == "clip03.wav")
    assert recording.metadata == {"artist": "artist 3", "chords": [3]}
    assert recording.info.num_frames == 400
    assert recording.info.sample_rate_hz == 8000
