"""Builds through the user's function of `audio.transform`: what is stored, what is rejected, what is made again."""

import pickle
import re

import numpy as np
import polars as pl
import pytest

from headrace import StreamingDataset
from headrace.audio import AudioFormat, Transform, decode
from headrace.config.content import AudioConfig
from headrace.config.partitioning import Partitioning
from headrace.errors import BuildError, ConfigError
from tests.support.builds import Project, check
from tests.support.sounds import file_of

ONE = Partitioning({"train": 1.0}, {"train": 1}, 1)
HERE = "tests.assemble.test_transform"
CALLS = []
ODD = {
    "raises": lambda audio, rate: 1 / 0,
    "shape": lambda audio, rate: (audio[0], rate),
    "nan": lambda audio, rate: (audio * np.nan, rate),
    "rate": lambda audio, rate: (audio, 0.5),
    "integers": lambda audio, rate: (audio.astype(np.int16), rate),
    "nothing": lambda audio, rate: (audio[:, :0], rate),
    "no_tuple": lambda audio, rate: audio,
}


def halved(audio, sample_rate, metadata):
    """Every second frame, at half the rate, times the row's gain; or something odd, as the row says."""
    CALLS.append((audio.shape, audio.dtype, sample_rate, metadata.get("gain")))
    if (odd := metadata.pop("odd", None)) is not None:
        return ODD[odd](audio, sample_rate)
    return audio[:, ::2] * np.float32(metadata.get("gain") or 1), sample_rate // 2


def reversed_in_time(audio, sample_rate, metadata):
    return audio[:, ::-1], sample_rate


def tagging(audio, sample_rate, metadata):
    metadata["tags"].append("seen")
    return audio, sample_rate


def by(function="halved", fingerprint="1", **settings):
    return AudioFormat(transform=Transform(f"{HERE}:{function}", fingerprint), **settings)


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path, layout=ONE, audio=by())
    for name in "abc":
        project.put(f"{name}.wav", channels=2)
    CALLS.clear()
    return project


def samples(project):
    dataset = StreamingDataset(remote=project.shards.uri, batch_size=1)
    return {sample["__key__"].partition("-")[0]: sample for sample in dataset}


def source(project, name):
    return decode((project.folder / "source" / f"{name}.wav").read_bytes())[0]


@pytest.mark.medium
def test_a_sample_is_what_the_function_returned_in_its_length_and_rate(project):
    project.metadata = pl.DataFrame({"path": ["a.wav"], "gain": [0.5]})
    built = check(project, project.build())
    found = samples(project)
    assert found.keys() == set("abc")
    for name, sample in found.items():
        want = source(project, name)[:, ::2] * (0.5 if name == "a" else 1)
        assert np.allclose(sample["audio"].numpy(), want, atol=2**-16)
        assert (sample["sample_rate"], sample["metadata"]["headrace"]["num_frames"]) == (4000, 200)
    assert found["a"]["metadata"]["gain"] == 0.5
    assert {call[:3] for call in CALLS} == {((2, 400), np.dtype(np.float32), 8000)}
    (build,) = built.partitions.values()
    assert [(shard.num_frames, shard.seconds) for shard in build.manifest.manifest.shards] == [(200, 0.05)] * 3


@pytest.mark.medium
def test_the_result_is_resampled_and_mixed_as_the_yaml_says(project):
    project.audio = by(sample_rate_hz=16_000, num_channels=1)
    check(project, project.build())
    assert {(tuple(s["audio"].shape), s["sample_rate"]) for s in samples(project).values()} == {((1, 800), 16_000)}


@pytest.mark.medium
def test_only_another_fingerprint_function_or_row_encodes_again(project):
    project.metadata = pl.DataFrame({"path": ["a.wav"], "gain": [0.25]})
    project.build()
    assert (len(CALLS), project.build().written) == (3, [])
    project.metadata = pl.DataFrame({"path": ["a.wav"], "gain": [0.5]})
    assert (len(project.build().written), len(CALLS)) == (1, 4)
    project.audio = by(fingerprint="2")
    assert (len(project.build().written), len(CALLS)) == (3, 7)
    project.audio = by("reversed_in_time")
    assert len(check(project, project.build()).written) == 3
    assert np.allclose(samples(project)["b"]["audio"].numpy(), source(project, "b")[:, ::-1])


@pytest.mark.medium
def test_what_the_function_does_to_its_metadata_changes_no_sample(project):
    project.audio = by("tagging")
    project.metadata = pl.DataFrame({"path": [f"{name}.wav" for name in "abc"], "tags": [["x"]] * 3})
    project.build()
    assert [sample["metadata"]["tags"] for sample in samples(project).values()] == [["x"]] * 3


def test_a_format_with_a_transform_can_be_sent_to_a_ray_node():
    assert pickle.loads(pickle.dumps(by())) == by()


def test_a_function_is_part_of_no_digest_of_other_data_sets(project):
    assert "transform" not in AudioFormat().canonical()


@pytest.mark.medium
@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ("raises", "raised ZeroDivisionError: division by zero"),
        ("shape", r"must return float32 audio \(1 to 8 channels, frames\), found float32 \(400,\)"),
        ("nan", "returned NaN or an infinity in frame 0"),
        ("rate", "must return a sample rate of 1 to 655350 Hz, found 0.5"),
        ("integers", r"found int16 \(2, 400\)"),
        ("nothing", r"found float32 \(2, 0\)"),
        ("no_tuple", r"must return \(audio, sample_rate\), found ndarray"),
    ],
)
def test_a_sample_on_which_the_function_fails_is_one_reject(project, odd, reason):
    project.metadata = pl.DataFrame({"path": ["a.wav"], "odd": [odd]})
    built = check(project, project.build())
    (build,) = built.partitions.values()
    (rejected,) = build.manifest.manifest.refused
    assert (rejected.path, rejected.code) == ("a.wav", "transform_failed")
    assert re.fullmatch(f"audio.transform: {HERE}:halved .*{reason}", rejected.reason)
    assert samples(project).keys() == {"b", "c"}


def test_another_span_of_the_recording_is_kept_if_one_fails(project):
    project.metadata = pl.DataFrame({"path": ["a.wav"] * 3, "start": [0.0, 0.01, 0.02], "odd": [None, "nan", None]})
    project.metadata = project.metadata.with_columns(end=pl.col("start") + 0.02)
    project.asked = {"samples": "rows", "metadata": "rows.csv"}
    (build,) = check(project, project.build()).partitions.values()
    ((path, key, code),) = [(one.path, one.key, one.code) for one in build.manifest.manifest.refused]
    assert (path, code) == ("a.wav", "transform_failed")
    assert key.endswith("-f80-240")
    dataset = StreamingDataset(remote=project.shards.uri, batch_size=1)
    assert sorted(sample["metadata"]["start"] for sample in dataset) == [0.0, 0.02]


@pytest.mark.parametrize("form", [("FLAC", "PCM_16"), ("OGG", "VORBIS")])
def test_the_function_is_given_the_frames_and_channels_of_a_span(tmp_path, form):
    project = Project(tmp_path, layout=ONE, audio=by())
    sound = np.random.default_rng(1).uniform(-0.5, 0.5, (4000, 2)).astype(np.float32)
    (tmp_path / "source/a.bin").write_bytes(file_of(sound, *form, 8000))
    whole = decode((tmp_path / "source/a.bin").read_bytes())[0]
    project.metadata = pl.DataFrame(
        {"path": ["a.bin"] * 3, "start": [0.0, 0.1, 0.125], "end": [0.5, 0.2, 0.25], "channel": [None, 1, None]}
    )
    project.asked = {"samples": "rows", "metadata": "rows.csv", "columns": {"channel": "channel"}}
    check(project, project.build())
    found = {
        sample["metadata"]["headrace"]["start_frame"]: sample["audio"].numpy()
        for sample in StreamingDataset(remote=project.shards.uri, batch_size=1)
    }
    for start, stop, channels in ((0, 4000, [0, 1]), (800, 1600, [1]), (1000, 2000, [0, 1])):
        assert np.allclose(found[start], whole[channels, start:stop:2], atol=2**-15)


@pytest.mark.medium
def test_segments_are_cut_from_the_whole_recording_after_the_function(project):
    project.audio = by("reversed_in_time", segment_seconds=0.02)
    check(project, project.build())
    of_a = (s for s in StreamingDataset(remote=project.shards.uri) if s["__key__"][0] == "a")
    parts = {s["metadata"]["headrace"]["start_frame"]: s for s in of_a}
    joined = np.concatenate([parts[start]["audio"].numpy() for start in sorted(parts)], axis=1)
    assert np.allclose(joined, source(project, "a")[:, ::-1])


def test_a_recording_whose_length_the_function_changes_cannot_be_cut_into_segments(project):
    project.audio = by(segment_seconds=0.02)
    with pytest.raises(BuildError, match=r"3 recordings are rejected: .*halved made 400 frames .* to keep the length"):
        project.build()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("nowhere.at_all:f", "ModuleNotFoundError"),
        (f"{HERE}:missing", "AttributeError"),
        (f"{HERE}:HERE", "expected a function, found str"),
    ],
)
def test_a_function_that_cannot_be_imported_ends_the_build(project, name, found):
    project.audio = AudioFormat(transform=Transform(name, "1"))
    with pytest.raises(ConfigError, match=f"audio.transform.function {name}: .*{found}"):
        project.build()


def test_the_yaml_names_function_and_fingerprint_and_no_copy():
    given = {"function": "my.code:f", "fingerprint": "v1"}
    assert AudioConfig(transform=given).format().transform == Transform("my.code:f", "v1")
    for wrong in ({"function": "my.code:f"}, {**given, "function": "f"}, {**given, "fingerprint": ""}):
        with pytest.raises(ValueError, match=r"transform\.(function|fingerprint)"):
            AudioConfig(transform=wrong)
    with pytest.raises(ValueError, match="transform: not with codec: copy"):
        AudioConfig(transform=given, codec="copy")
