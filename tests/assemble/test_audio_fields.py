"""Rows with named audio fields: from the table to shards, to both loaders, to latents and to the smoke test."""

from html import unescape

import numpy as np
import polars as pl
import pytest
import soundfile as sf

from headrace import StreamingDataLoader, StreamingDataset, encoders, webdataset_loader
from headrace.assemble.audio_counts import AudioCounts
from headrace.assemble.latents import LatentSettings, build_latent_partition
from headrace.audio import AudioFormat
from headrace.cli import main
from headrace.config.dataset import DatasetConfig
from headrace.config.operation import LoaderConfig
from headrace.config.partitioning import Partitioning
from headrace.errors import ConfigError
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.manifests import newest_manifests
from headrace.format.snapshots.commits import commit_snapshot
from headrace.report.catalog_figures import CatalogFigures
from headrace.report.contents import ReportInputs, collect_contents
from headrace.report.page import Report, render_report
from headrace.smoke.encoding import ReencodingCheck
from headrace.smoke.run import SmokePart, smoke_test
from headrace.stores.storage import LocalStorage
from headrace.upkeep.takedown import SampleSearch
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.support.builds import PLAIN, Project, check

pytestmark = pytest.mark.medium

RATE = 8000
STEMS = {"mix": "mix_path", "vocals": "vocals_path"}
LAYOUT = Partitioning({"train": 1.0}, {"train": 1}, 4)
SPANS = [(None, None), (0.0, 0.5), (0.25, 1.0), (0.5, None), (None, 0.3), (0.1, 0.2)]


def mix_of(song):
    """int16 (frames, 2)."""
    noise = np.random.default_rng(song).integers(-9000, 9000, (RATE + 100 * song, 2))
    return noise.astype(np.int16)


def project_of(folder, audio=PLAIN, suffix="wav", **asked):
    """Six songs; the vocals of each are its left channel, negated."""
    table = pl.DataFrame(
        {
            "mix_path": [f"{song}/mix.{suffix}" for song in range(6)],
            "vocals_path": [f"{song}/vocals.{suffix}" for song in range(6)],
            "start": [start for start, _ in SPANS],
            "end": [end for _, end in SPANS],
            "title": [f"Song {song}" for song in range(6)],
        }
    )
    project = Project(
        folder,
        layout=LAYOUT,
        audio=audio,
        metadata=table,
        asked={"samples": "rows", "metadata": "songs.csv", "fields": STEMS, **asked},
    )
    for song in range(6):
        (folder / "source" / str(song)).mkdir(parents=True)
        for name, pcm in (("mix", mix_of(song)), ("vocals", -mix_of(song)[:, :1])):
            sf.write(folder / "source" / str(song) / f"{name}.{suffix}", pcm, RATE)
    return project


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The project, built once."""
    project = project_of(tmp_path_factory.mktemp("songs"))
    check(project, project.build())
    return project


def frames_of(song):
    start, end = SPANS[song]
    whole = len(mix_of(song))
    return int((start or 0) * RATE + 0.5), whole if end is None else int(end * RATE + 0.5)


def check_batch(batch):
    for row, metadata in enumerate(batch["metadata"]):
        if not metadata:
            continue
        song = int(metadata["title"].split()[1])
        first, last = frames_of(song)
        count = int(batch["num_frames"][row])
        offset = int(batch["frame_offset"][row]) if "frame_offset" in batch else 0
        wanted = mix_of(song)[first:last][offset : offset + count].T.astype(np.float32) / 32768
        assert np.array_equal(batch["mix"][row, :, :count].numpy(), wanted)
        assert np.array_equal(batch["vocals"][row, :, :count].numpy(), -wanted[:1])
        yield song


def test_six_songs_reach_both_loaders_with_their_stems_aligned(built):
    streaming = StreamingDataset(remote=str(built.output.uri), batch_size=4, shuffle=True)
    assert sorted(song for batch in StreamingDataLoader(streaming) for song in check_batch(batch)) == list(range(6))
    plain = webdataset_loader(str(built.output.uri), batch_size=4)
    assert sorted(song for batch in plain for song in check_batch(batch)) == list(range(6))
    cropped = StreamingDataset(remote=str(built.output.uri), batch_size=4, shuffle=True, crop_frames=300)
    assert sorted(song for batch in StreamingDataLoader(cropped) for song in check_batch(batch)) == list(range(6))


def test_the_json_has_the_origin_of_each_field(built):
    for sample in StreamingDataset(remote=str(built.output.uri)):
        song = sample["metadata"]["title"].split()[1]
        facts = sample["metadata"]["headrace"]
        assert facts["source"] == facts["fields"]["mix"]["source"] == f"{song}/mix.wav"
        assert facts["fields"]["vocals"]["source"] == f"{song}/vocals.wav"
        assert len(facts["fields"]["vocals"]["source_sha256"]) == 64
        assert {name: origin["num_channels"] for name, origin in facts["fields"].items()} == {"mix": 2, "vocals": 1}


def test_verify_and_the_smoke_test_read_every_field(built):
    assert not verify(find_target(str(built.output.uri)), Depth(samples_per_shard=9)).faults
    result = smoke_test({"audio": SmokePart.newest(built.shards)}, LoaderConfig(num_workers=0, batch_size=2))["audio"]
    assert not any(result.faults.values()), result.faults
    assert (result.num_samples, result.num_streamed) == (6, 6)


@pytest.mark.parametrize(
    ("audio", "suffix", "member"),
    [
        (AudioFormat(16_000, 1, 16), "wav", "flac"),
        (AudioFormat(None, None, None, codec="opus"), "wav", "opus"),
        (AudioFormat(None, None, None, codec="copy"), "mp3", "mp3"),
    ],
    ids=["converted", "opus", "copied MP3"],
)
def test_every_field_is_stored_in_the_wanted_codec(tmp_path, audio, suffix, member):
    project = project_of(tmp_path, audio, suffix)
    check(project, project.build())
    members = set()
    for entry in project.shards.list():
        if entry.path.endswith(".tar"):
            members |= set(read_index(project.shards, entry.path).fields)
    assert {f"mix.{member}", f"vocals.{member}", "json"} <= members
    for batch in StreamingDataLoader(StreamingDataset(remote=str(project.output.uri), batch_size=3, crop_frames=500)):
        assert batch["mix"].shape == (3, audio.num_channels or 2, 500)
        assert batch["vocals"].shape == (3, 1, 500)
    assert not verify(find_target(str(project.output.uri)), Depth(samples_per_shard=9)).faults


def test_a_damaged_field_rejects_its_row_alone_and_is_named(tmp_path):
    project = project_of(tmp_path, suffix="flac")
    path = tmp_path / "source/2/vocals.flac"
    blob = bytearray(path.read_bytes())
    blob[len(blob) // 2 : len(blob) // 2 + 40] = bytes(40)
    path.write_bytes(blob)
    result = check(project, project.build())
    ((path, code, reason),) = [
        (rejection.path, rejection.code, rejection.reason)
        for build in result.partitions.values()
        for rejection in build.manifest.manifest.refused
    ]
    assert (path, code) == ("2/mix.flac", "undecodable")
    assert reason.startswith("audio field 'vocals', 2/vocals.flac: ")
    dataset = StreamingDataset(remote=str(project.output.uri), batch_size=5)
    assert sorted(s for batch in StreamingDataLoader(dataset) for s in check_batch(batch)) == [0, 1, 3, 4, 5]


def test_a_changed_title_copies_the_audio_of_all_fields_and_opens_no_recording(tmp_path):
    project = project_of(tmp_path)
    project.build()
    before = audio_bytes(project)
    project.metadata = project.metadata.with_columns(title=pl.col("title").replace("Song 3", "Song 3 again"))
    (build,) = project.build().partitions.values()
    assert len(build.written) == 1
    assert build.audio == AudioCounts(num_taken_over=4)
    assert audio_bytes(project) == before
    assert "Song 3 again" in {s["metadata"]["title"] for s in StreamingDataset(remote=str(project.output.uri))}


def test_another_file_of_one_field_rewrites_its_shard(tmp_path):
    project = project_of(tmp_path)
    project.build()
    before = audio_bytes(project)
    sf.write(tmp_path / "source/5/vocals.wav", np.zeros((RATE + 500, 1), np.int16), RATE)
    assert len(project.build().written) == 1
    after = audio_bytes(project)
    changed = {name for name in before if after[name] != before[name]}
    assert {name.rpartition("/")[2].partition(".")[2] for name in changed} == {"vocals.flac"}
    assert len(changed) == 1


def audio_bytes(project):
    """Bytes of each audio field of the newest snapshot, by `<key>/<key>.<member>`."""
    found = {}
    for name in {name for build in newest_manifests(project.shards).values() for name in names_of(build)}:
        index, blob = read_index(project.shards, name), project.shards.read(name)
        for row, key in enumerate(index.keys()):
            for field in index.audio_fields:
                audio = index.audio_of(row, field)
                found[f"{key}/{key}.{audio.member}"] = blob[slice(*audio.span)]
    return found


def names_of(numbered):
    return [shard.name for shard in numbered.manifest.shards]


def latents_of(built, folder, field):
    """Latents by key, made from a field; they are encoded again and compared, and joined to their audio."""
    encoder = encoders.load("log_mel", {"num_mels": 8})
    settings = LatentSettings(encoder.fingerprint, "float32", field)
    storage = LocalStorage(folder / f"latents/mel_{field}")
    build_latent_partition("train-0000", settings, lambda: [encoder], built.shards, storage)
    audio = SmokePart.newest(built.shards).numbered
    origin = {"audio_snapshot": audio.number, "audio_fingerprint": audio.snapshot.fingerprint}
    commit_snapshot(storage, newest_manifests(storage), "catalog", origin)
    faults = []
    assert ReencodingCheck(built.shards, storage, lambda: [encoder], "seed", 3).faults(
        SmokePart.newest(storage).table, faults
    )
    assert not faults
    (batch,) = StreamingDataLoader(StreamingDataset(remote=str(built.output.uri), latents=[storage.uri], batch_size=6))
    assert sorted(check_batch(batch)) == list(range(6))
    return {key: batch["encoder_hidden"][row].numpy() for row, key in enumerate(batch["keys"])}


def test_latents_are_made_from_the_field_that_they_name(built, tmp_path):
    first, mix, vocals = (latents_of(built, tmp_path, field) for field in ("", "mix", "vocals"))
    assert all(np.array_equal(first[key], mix[key]) for key in first)
    assert not any(np.allclose(vocals[key], mix[key]) for key in mix)


def test_an_unknown_field_of_latents_is_an_error_that_lists_the_fields(built, tmp_path):
    def config(field, **source):
        encoder = {"kind": "log_mel"}
        return DatasetConfig(
            name="songs",
            source={"uri": "songs", **source},
            latents=[{"name": "mel", "encoder": encoder, "field": field}],
            output={"uri": "data/songs"},
        )

    rows = {"samples": "rows", "metadata": "songs.csv", "fields": STEMS}
    assert config("vocals", **rows).latents[0].audio_field == "vocals"
    assert config("audio").latents[0].audio_field == "audio"
    with pytest.raises(ValueError, match=r"no audio field 'drums'; the audio fields .* are mix, vocals"):
        config("drums", **rows)
    with pytest.raises(ValueError, match=r"no audio field 'vocals'; the audio fields .* are audio"):
        config("vocals")
    with pytest.raises(ValueError, match="cannot be the name of an audio field"):
        config(None, **rows | {"fields": {"metadata": "mix_path"}})
    storage, mel = LocalStorage(tmp_path / "latents/mel"), {"num_mels": 8}
    settings = LatentSettings(encoders.fingerprint("log_mel", mel), "float32", "drums")
    with pytest.raises(ConfigError, match=r"no audio field 'drums'; the shard has mix, vocals"):
        build_latent_partition("train-0000", settings, lambda: [encoders.load("log_mel", mel)], built.shards, storage)


def test_the_report_draws_and_plays_every_field(built):
    rejected = pl.DataFrame(schema={"path": pl.String, "code": pl.String, "reason": pl.String})
    contents = collect_contents(ReportInputs(CatalogFigures(), rejected, built.shards, {}))
    assert len(contents.clips) == 6
    for clip in contents.clips:
        assert (clip.field_name, list(clip.stems)) == ("mix", ["vocals"])
        assert np.array_equal(clip.stems["vocals"], -clip.samples[:1])
    page = unescape(render_report(Report("songs", {}, [], "data/songs", contents)).decode())
    assert page.count("<audio ") == 12
    assert 'batch["mix"], batch["vocals"], batch["num_frames"]' in page


def test_inspect_counts_the_channels_of_every_field(built, capsys):
    assert main(["inspect", str(built.output.uri)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert any("channels of mix │ 2: 6" in line for line in lines)
    assert any("channels of vocals │ 1: 6" in line for line in lines)


@pytest.mark.parametrize("field", ["mix", "vocals"])
@pytest.mark.parametrize("stage", ["built", "excluded"])
def test_a_sample_is_found_by_the_path_of_each_of_its_files(tmp_path, stage, field):
    project = project_of(tmp_path)
    project.build()
    (key,) = SampleSearch(project.output).keys_of("3/mix.wav")
    if stage == "excluded":
        project.exclude = (key,)
        project.build()
    assert SampleSearch(project.output).keys_of(f"3/{field}.wav") == {key}
    assert SampleSearch(project.output).keys_of("3/other.wav") == frozenset()
