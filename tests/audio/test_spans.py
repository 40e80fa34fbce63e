"""Rows as samples: spans of recordings, from the metadata table to the shards."""

import contextlib
import io
import json

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audio import AudioFormat, AudioInfo, Segment, Span, encode_segments, encode_spans
from headrace.audio import spans as spans_module
from headrace.catalog.compared.regressions import find_regressions
from headrace.catalog.stored.parts import existing_catalog
from headrace.catalog.stored.storing import store_decode_rejects
from headrace.errors import AudioError, CatalogError
from headrace.format.indexes.index import index_name
from headrace.format.indexes.index_files import parse_index
from headrace.format.tars.tar import payload
from headrace.sources.sources import open_source
from tests.support.builds import Project, check
from tests.support.sounds import FORMATS as ALL_FORMATS
from tests.support.sounds import file_of, music, pcm_of, probed, rate_of

ROWS = {"samples": "rows", "metadata": "rows.csv"}
FORMATS = [
    ("wav", "WAV", "PCM_16"),
    ("wav", "WAV", "FLOAT"),
    ("flac", "FLAC", "PCM_16"),
    ("flac", "FLAC", "PCM_24"),
    ("mp3", "MP3", "MPEG_LAYER_III"),
    ("ogg", "OGG", "VORBIS"),
    ("opus", "OGG", "OPUS"),
]
FIFTEEN = [  # (file, start, end) in seconds: overlapping, nested, out of order, to both ends
    (0, 0.0, 0.5), (0, 0.25, 0.75), (0, 1.0, 1.1), (0, 0.1, 0.9), (0, 1.5, 2.0),
    (1, 0.6, 0.7), (1, 0.0, 2.0), (1, 0.05, 0.051), (1, 1.999, 2.0), (1, 0.3, 1.3),
    (2, 0.0, 0.3333), (2, 0.3333, 0.6667), (2, 0.6667, 1.0), (2, 1.0, 1.7), (2, 1.2345, 1.5),
]  # fmt: skip


def table_of(rows, name):
    return pl.DataFrame(
        {
            "path": [name(number) for number, *_ in rows],
            "start": [start for _, start, _ in rows],
            "end": [end for *_, end in rows],
            "text": [f"utterance {i}" for i in range(len(rows))],
        }
    )


def rows_project(folder, table, files, **asked):
    project = Project(folder, metadata=table, asked={**ROWS, **asked})
    for name, data in files.items():
        (folder / "source" / name).write_bytes(data)
    return project


def samples(project, result):
    """Encoded audio and JSON of every sample by key."""
    found = {}
    for name in result.contents:
        index = parse_index(project.shards.read(index_name(name)), name)
        with project.shards.open(name) as file:
            for i, key in enumerate(index.keys()):
                found[key] = (
                    payload(file, index.range_of(i, "flac")),
                    json.loads(payload(file, index.range_of(i, "json"))),
                )
    return found


@pytest.mark.medium
@pytest.mark.parametrize(("suffix", "container", "subtype"), FORMATS)
def test_fifteen_utterances_of_three_recordings_are_fifteen_bit_equal_samples(tmp_path, suffix, container, subtype):
    rate = rate_of(subtype)
    files = {f"{n}.{suffix}": file_of(music(2 * rate, 2, seed=n), container, subtype, rate) for n in range(3)}
    table = table_of(FIFTEEN, lambda number: f"{number}.{suffix}")
    project = rows_project(tmp_path, table, files)
    result = check(project, project.build())
    found = samples(project, result)
    assert len(found) == 15
    by_text = {described["text"]: (data, described) for data, described in found.values()}
    for i, (number, start, end) in enumerate(FIFTEEN):
        data, described = by_text[f"utterance {i}"]
        first, last = int(np.floor(start * rate + 0.5)), int(np.floor(end * rate + 0.5))
        bits = "int32" if subtype in {"PCM_24", "FLOAT"} else "int16"
        pcm, _ = sf.read(io.BytesIO(data), dtype=bits, always_2d=True)
        path = tmp_path / "source" / f"{number}.{suffix}"
        if subtype in {"PCM_16", "PCM_24"}:
            wanted, _ = sf.read(path, start=first, stop=last, dtype=bits, always_2d=True)
        else:  # the slice of the whole recording, as it is decoded and rounded
            whole = encode_segments(
                io.BytesIO(files[path.name]), probed(files[path.name]), AudioFormat(), [Segment(0, 0, 2 * rate)]
            )
            wanted = (pcm_of(next(whole)) >> (0 if bits == "int32" else 16))[first:last]
        assert np.array_equal(pcm, wanted)
        assert described["headrace"]["source"] == path.name
        if (first, last) != (0, 2 * rate):
            assert described["headrace"]["start_frame"] == first
            assert described["headrace"]["stop_frame"] == last
        assert described["headrace"]["num_frames"] == last - first


@pytest.mark.parametrize("wanted", [AudioFormat(16_000, 1, 16), AudioFormat(16_000), AudioFormat(48_000, None, 24)])
@pytest.mark.parametrize(("container", "subtype"), [("WAV", "PCM_16"), ("FLAC", "PCM_24"), ("OGG", "VORBIS")])
def test_a_resampled_span_equals_a_recording_of_its_frames_alone(wanted, container, subtype):
    data = file_of(music(60_000, 2), container, subtype)
    info = probed(data)
    spans = [Span(0, 100), Span(7_001, 29_003), Span(20_000, 60_000), Span(59_990, 60_000), Span(0, 60_000)]
    dtype = "float32" if subtype == "VORBIS" else "int32"
    whole, rate = sf.read(io.BytesIO(data), dtype=dtype, always_2d=True)
    found = dict(encode_spans(io.BytesIO(data), info, wanted, spans, block_samples=5000))
    assert sorted(found) == list(range(5))
    for number, span in enumerate(spans):
        stored = "FLOAT" if dtype == "float32" else subtype
        alone = file_of(whole[span.start_frame : span.stop_frame], "WAV", stored, rate)
        about = probed(alone)
        like = AudioInfo(about.container, about.subtype, span.num_frames, rate, 2, info.bits_per_sample)
        form = AudioFormat(wanted.sample_rate_hz, wanted.num_channels, wanted.output_bits(info))
        length = found[number].num_frames
        expected = next(encode_segments(io.BytesIO(alone), about, form, [Segment(0, 0, length)]))
        assert np.array_equal(pcm_of(found[number]), pcm_of(expected)), (span, like)


class CountingSource:
    """A source that counts how often each file is opened."""

    def __init__(self, root):
        self.source, self.opened = open_source(root), []

    def __getattr__(self, name):
        return getattr(self.source, name)

    @contextlib.contextmanager
    def open(self, path, stamp):
        self.opened.append(path)
        with self.source.open(path, stamp) as file:
            yield file


@pytest.mark.medium
def test_a_recording_without_exact_seek_is_decoded_once_for_all_shards(tmp_path, monkeypatch):
    rate = 8000
    rng = np.random.default_rng(0)
    starts = np.round(rng.uniform(0, 9, 200), 3)
    rows = [(0, float(start), float(start) + 0.5) for start in starts]
    project = rows_project(
        tmp_path,
        table_of(rows, lambda _: "long.mp3").unique(["path", "start", "end"], maintain_order=True),
        {"long.mp3": file_of(music(10 * rate, rate_hz=rate), "MP3", "MPEG_LAYER_III", rate)},
    )
    source = CountingSource(tmp_path / "source")
    monkeypatch.setattr("tests.support.builds.open_source", lambda _: source)
    frames = []
    monkeypatch.setattr(spans_module, "FrameReader", recording_reader(frames))
    result = check(project, project.build())
    assert len(result.contents) > 40  # shards
    assert source.opened == ["long.mp3"]
    assert sum(frames) <= 10 * rate


def recording_reader(frames):
    class Reader(spans_module.FrameReader):
        def blocks(self, start, stop):
            for block in super().blocks(start, stop):
                frames.append(len(block))
                yield block

    return Reader


@pytest.mark.medium
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("column", ["text", "end"])
def test_one_changed_row_rewrites_one_shard(tmp_path, keyed, column):
    rows = [(number % 5, 0.01 * i, 0.01 * i + 0.05) for i, number in enumerate(range(40))]
    table = table_of(rows, "{}.wav".format).with_columns(utt=pl.format("utt-{}", pl.int_range(40)))
    asked = {"columns": {"key": "utt"}} if keyed else {}
    files = {f"{n}.wav": file_of(music(8000, rate_hz=8000, seed=n), rate_hz=8000) for n in range(5)}
    project = rows_project(tmp_path, table, files, **asked)
    first = check(project, project.build())
    assert len(first.written) >= 8
    changed = {"text": pl.lit("another"), "end": pl.col("end") + 0.01}[column]
    is_row = pl.int_range(pl.len()) == 17
    project.metadata = table.with_columns(pl.when(is_row).then(changed).otherwise(column).alias(column))
    second = check(project, project.build())
    assert len(second.written) == 1
    assert len(samples(project, second)) == 40


@pytest.mark.medium
def test_spans_that_are_damaged_are_rejected_and_the_others_are_not(tmp_path):
    values = music(8000, rate_hz=8000).astype(np.float32)
    values[4000] = np.nan
    rows = [(0, 0.0, 0.25), (0, 0.3, 0.6), (0, 0.5, 0.51), (0, 0.75, 1.0)]
    project = rows_project(tmp_path, table_of(rows, "{}.wav".format), {"0.wav": file_of(values, "WAV", "FLOAT", 8000)})
    result = check(project, project.build())
    refused = [refusal for build in result.partitions.values() for refusal in build.manifest.manifest.refused]
    assert {refusal.key.rpartition("-f")[2] for refusal in refused} == {"2400-4800", "4000-4080"}
    assert {refusal.code for refusal in refused} == {"non_finite"}
    assert len(samples(project, result)) == 2
    catalog = existing_catalog(project.output)
    manifests = {name: build.manifest for name, build in result.partitions.items()}
    store_decode_rejects(catalog, manifests)
    stored = existing_catalog(project.output).whole()
    rejected = stored.rejected.filter(pl.col("origin") == "decode")
    assert set(rejected["key"]) == {refusal.key for refusal in refused}
    (state,) = find_regressions(project.output, [stored.recordings], stored.rejected, []).state
    assert state["seconds"].sum() == 0.5
    assert state.filter(pl.col("code") == "non_finite")["is_row"].to_list() == [True, True]
    again = project.build()
    assert again.written == []
    assert existing_catalog(project.output).whole().rejected.equals(stored.rejected)


@pytest.mark.parametrize(("container", "subtype"), ALL_FORMATS)
def test_spans_of_every_format_are_the_frames_of_the_whole_recording(container, subtype):
    data = file_of(music(12_000, 2, rate_of(subtype)), container, subtype, rate_of(subtype))
    info = probed(data)
    end = info.num_frames
    spans = [Span(7000, 9000), Span(0, 500), Span(100, end), Span(8999, 9001), Span(end - 1, end), Span(5000, 5001)]
    whole = pcm_of(next(encode_segments(io.BytesIO(data), info, AudioFormat(), [Segment(0, 0, end)])))
    for number, found in encode_spans(io.BytesIO(data), info, AudioFormat(), spans, block_samples=3000):
        assert np.array_equal(pcm_of(found), whole[spans[number].start_frame : spans[number].stop_frame])


PROPERTY_FILES = {
    subtype: file_of(music(9000, 1, seed=3), container, subtype)
    for container, subtype in (("FLAC", "PCM_16"), ("WAV", "PCM_24"), ("OGG", "VORBIS"))
}


@pytest.mark.medium
@settings(max_examples=40)
@given(
    st.sampled_from(sorted(PROPERTY_FILES)),
    st.lists(st.tuples(st.integers(0, 8999), st.integers(1, 4000)), min_size=1, max_size=12),
    st.sampled_from([100, 1000, 1 << 20]),
)
def test_random_spans_are_the_frames_of_the_whole_recording(subtype, drawn, block_samples):
    data = PROPERTY_FILES[subtype]
    info = probed(data)
    spans = [Span(start, min(start + length, info.num_frames)) for start, length in drawn]
    whole = pcm_of(next(encode_segments(io.BytesIO(data), info, AudioFormat(), [Segment(0, 0, info.num_frames)])))
    found = dict(encode_spans(io.BytesIO(data), info, AudioFormat(), spans, block_samples=block_samples))
    assert sorted(found) == list(range(len(spans)))
    for number, span in enumerate(spans):
        assert np.array_equal(pcm_of(found[number]), whole[span.start_frame : span.stop_frame])


@pytest.mark.parametrize(("container", "subtype"), [("FLAC", "PCM_16"), ("WAV", "PCM_16")])
def test_bytes_of_spans_do_not_depend_on_the_other_spans(container, subtype):
    data = file_of(music(30_000, 1), container, subtype)
    spans = [Span(start, start + 2000) for start in (0, 1000, 5000, 27_999)]
    together = dict(encode_spans(io.BytesIO(data), probed(data), AudioFormat(), spans))
    for number, span in enumerate(spans):
        ((_, alone),) = encode_spans(io.BytesIO(data), probed(data), AudioFormat(), [span], block_samples=100)
        assert alone == together[number]


@pytest.mark.medium
def test_frames_of_many_open_spans_wait_on_disk(monkeypatch):
    monkeypatch.setattr(spans_module, "_HELD_BYTES", 10_000)
    data = file_of(music(50_000, 2), "OGG", "VORBIS")
    spans = [Span(start, 50_000 - start) for start in range(0, 20_000, 1000)]
    found = dict(encode_spans(io.BytesIO(data), probed(data), AudioFormat(), spans, block_samples=1000))
    monkeypatch.undo()
    wanted = dict(encode_spans(io.BytesIO(data), probed(data), AudioFormat(), spans))
    assert found == wanted


def test_a_flac_that_is_damaged_between_spans_gives_the_spans_that_are_sound():
    data = bytearray(file_of(music(400_000, 1), "FLAC", "PCM_16"))
    middle = len(data) // 2
    data[middle : middle + 200] = bytes(200)
    spans = [Span(0, 50_000), Span(150_000, 250_000), Span(350_000, 400_000)]
    whole = file_of(music(400_000, 1), "FLAC", "PCM_16")
    found = dict(encode_spans(io.BytesIO(data), probed(bytes(data)), AudioFormat(), spans))
    sound = dict(encode_spans(io.BytesIO(whole), probed(whole), AudioFormat(), spans))
    assert isinstance(found[1], AudioError)
    assert (found[0], found[2]) == (sound[0], sound[2])


def test_a_table_whose_rows_are_all_bad_is_an_error(tmp_path):
    project = rows_project(tmp_path, table_of([(0, 5.0, 6.0), (0, 0.5, 0.2), (7, 0, 1)], "{}.wav".format), {})
    project.put("0.wav")
    with pytest.raises(CatalogError, match=r"all of its 3 rows are rejected .*row 1 of the metadata table begins at 5"):
        project.build()
