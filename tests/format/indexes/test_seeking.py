"""Seek points are found when a shard is written, and when a tar is indexed; `verify` compares them."""

import io
import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.audio import MemberFile, PartFacts, SeekPoints, decode_part, part_spans
from headrace.errors import FormatError, HeadraceError
from headrace.format.indexes import index, seeking
from headrace.format.indexes.index_files import parse_index
from headrace.format.indexes.indexing import index_tar
from headrace.format.tars.member_names import Naming
from headrace.upkeep.tar_indexes import index_tars
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.audio.test_partial import files
from tests.support.forging import forged_table
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.tars import tar_of


@pytest.fixture(autouse=True)
def long(monkeypatch):
    """Make audio of over 5 kB long."""
    monkeypatch.setattr(seeking, "LONG_BYTES", 5_000)


def members():
    short = files("flac")[0][:100]
    return {
        "a.flac": files("flac")[4],
        "b.mp3": files("mp3")[5],
        "c.txt": b"text",
        "d.wav": files("wav")[1],
        "e.flac": short,
    }


@pytest.mark.medium
def test_points_of_a_tar_are_in_the_bytes_of_its_index():
    made = index_tar(io.BytesIO(tar_of(members())), "x.tar")
    parsed = parse_index(made.to_bytes(), "x.idx")
    assert parsed.seeks.equals(made.seeks)
    found = [parsed.seek_points(row) for row in range(5)]
    assert [points and points.coding for points in found] == [1, 2, None, None, None]
    for row, points in enumerate(found[:2]):
        size = parsed.audio_sizes[row, 0]
        assert 0 <= points.places[0] < points.places[-1] < size
    assert index_tar(io.BytesIO(tar_of(members())), "x.tar", has_checksums=False).seeks is None


def test_named_fields_have_their_own():
    one, other = files("flac")[4], files("flac")[5]  # of the same form, with other frames
    made = index_tar(
        io.BytesIO(tar_of({"a.mix.flac": one, "a.vocals.flac": other})),
        "x.tar",
        naming=Naming(audio_fields=("mix", "vocals")),
    )
    assert made.audio_sizes.tolist() == [[len(one), len(other)]]
    mix, vocals = made.seek_points(0, "mix"), made.seek_points(0, "vocals")
    assert mix.coding == vocals.coding == 1
    assert mix.places.tolist() != vocals.places.tolist()


def test_short_audio_adds_nothing(monkeypatch):
    monkeypatch.setattr(seeking, "LONG_BYTES", index.LONG_BYTES)
    made = index_tar(io.BytesIO(tar_of(members())), "x.tar")
    assert made.seeks is None
    assert b"seek" not in made.to_bytes()


def faults(folder):
    return [fault.what for fault in verify(find_target(str(folder)), Depth()).faults]


def test_written_shards_have_those_that_indexing_finds_and_verify_compares_them(tmp_path):
    write_dataset(tmp_path, {"train": clips(2, frames=(60_000, 80_000))}, per_shard=2)
    (tar,) = (tmp_path / "audio").glob("*.tar")
    written = parse_index(tar.with_suffix(".idx").read_bytes(), "x.idx")
    found = index_tar(io.BytesIO(tar.read_bytes()), tar.name, sha256=written.sha256)
    assert written.seeks.equals(found.seeks)
    assert not faults(tmp_path)
    moved = written.seeks._replace(places=written.seeks.places + 1)
    tar.with_suffix(".idx").write_bytes(replace(written, seeks=moved).to_bytes())
    assert any("seek points" in fault for fault in faults(tmp_path))


def test_forged_points_are_an_error_of_the_index(tmp_path):
    made = index_tar(io.BytesIO(tar_of(members())), "x.tar")
    wrong = replace(made, seeks=made.seeks._replace(places=made.seeks.places + np.int32(1 << 30)))
    with pytest.raises(FormatError, match=r"x\.idx: the index contradicts itself: seek points outside"):
        parse_index(wrong.to_bytes(), "x.idx")


def test_the_command_writes_them(tmp_path):
    (tmp_path / "x.tar").write_bytes(tar_of(members()))
    index_tars(str(tmp_path), num_threads=1)
    assert parse_index((tmp_path / "x.idx").read_bytes(), "x.idx").seeks is not None


@pytest.mark.medium
@given(number=st.integers(0, 1 << 32))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_forged_points_are_used_or_an_error_of_the_family(number):
    blob, tar = forgeable()
    try:
        found = parse_index(forged_table(blob, random.Random(number)), "x.idx")
        points = [found.seek_points(row) for row in range(len(found))]
    except HeadraceError:
        return
    for row, one in enumerate(points):
        if one is not None:
            start, stop = found.audio_range(row)
            member = memoryview(tar)[start:stop]
            file = MemberFile(lambda first, last, member=member: member[first:last], len(member), 1)
            facts = PartFacts(60_000, int(found.sample_rate_hz[row]), int(found.num_channels[row]))
            out = np.empty((max(1, facts.num_channels % 9), 1000), np.float32)
            decode_part(file, facts, out, 20_000, SeekPoints(*one))
            part_spans(SeekPoints(*one), facts, (20_000, 21_000), stop - start)


@cache
def forgeable():
    """The bytes of an index with seek points, and of its tar."""
    tar = tar_of({"a.flac": files("flac")[4], "b.mp3": files("mp3")[5], "c.ogg": files("vorbis")[5]})
    blob = index_tar(io.BytesIO(tar), "x.tar").to_bytes()
    assert len(parse_index(blob, "x.idx").seeks.places) > 9
    return blob, tar
