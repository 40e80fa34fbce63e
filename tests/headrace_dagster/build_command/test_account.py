"""The summary that a build prints of its changes."""

import io

from rich.console import Console

from headrace.assemble.audio_counts import AudioCounts
from headrace.assemble.build_reasons import BuildReason
from headrace.assemble.changes import BuildChanges, BuildStep, ShardChanges
from headrace.catalog.compared.changes import CatalogChanges
from headrace.format.rejects import Reject, compare_rejects
from headrace_dagster.build_command.account import nothing_changed, show_changes
from headrace_dagster.build_command.standing import with_seconds

NONE = compare_rejects([], [])
OLD = [Reject(f"old{i}.wav", "empty", "0 bytes") for i in range(3)]


def shown(changes, width=200):
    file = io.StringIO()
    show_changes(Console(file=file, width=width), changes, "out/catalog/rejected.parquet")
    return [" ".join(line.replace("│", "|").split()) for line in file.getvalue().splitlines()]


def catalog(after=(), **paths):
    kinds = {name: tuple(paths.get(name, ())) for name in ("added", "changed", "removed", "described")}
    return CatalogChanges(**kinds, rejects=compare_rejects(OLD, [*OLD, *after]), num_recordings=40)


def test_changed_files_are_counted_and_the_first_of_each_kind_is_named():
    lines = shown(BuildChanges(catalog(added=["a", "b", "c", "d"], changed=["e"], removed=["f"]), (), 1.0))
    assert lines[0] == "files: 4 added (a, b, c and 1 more), 1 changed (e), 1 removed (f); 40 recordings"


def test_samples_are_counted_by_where_their_audio_comes_from():
    steps = (BuildStep("audio_shards", 1.0, None, AudioCounts(num_encoded=3, num_taken_over=47)), BuildStep("mel", 1.0))
    lines = shown(BuildChanges(catalog(), steps, 2.0))
    assert "audio_shards: samples written: 3 encoded, 47 taken over" in lines
    assert not any("mel: samples" in line for line in lines)


def test_new_rejects_come_first_up_to_ten_and_the_rest_is_counted():
    new = [Reject(f"new{i:02d}.wav", "undecodable", f"reason [{i}]") for i in range(12)]
    copies = [Reject(f"copy{i}.wav", "duplicate", "same bytes") for i in range(2)]
    lines = shown(BuildChanges(catalog(after=[*new, *copies]), (), 1.0))
    assert lines[1:3] == ["rejected, new: 12", "new00.wav: undecodable: reason [0]"]
    assert lines[11:] == [
        "new09.wav: undecodable: reason [9]",
        "… and 2 more",
        "15 rejected in all (undecodable 12, empty 3); each with its reason: out/catalog/rejected.parquet",
        "2 left out as the YAML asks (duplicate 2), 2 of them new",
    ]


def test_earlier_rejects_are_only_counted():
    lines = shown(BuildChanges(catalog(added=["a"]), (), 1.0))
    assert lines[1:] == ["3 rejected in all (empty 3); each with its reason: out/catalog/rejected.parquet"]


def test_a_step_shows_seconds_partitions_reasons_and_shards():
    why = {f"train-{i:04d}": (BuildReason.NEW,) for i in range(6)} | {
        "test-0000": (BuildReason.RECORDINGS, BuildReason.LAYOUT)
    }
    steps = (
        BuildStep("catalog", 0.26),
        BuildStep("audio_shards", 12.34, ShardChanges(why, 0, 9, 7, 2, 1, NONE)),
    )
    lines = shown(BuildChanges(None, steps, 13.0))
    first = "new: train-0000, train-0001, train-0002, train-0003 and 2 more"
    assert lines[0] == f"audio_shards: {first}; recordings or metadata changed and shard layout changed: test-0000"
    rows = [line.split() for line in lines]
    assert ["catalog", "0.3"] in rows
    assert ["audio_shards", "12.3", "7", "of", "9", "7", "2", "1", "9"] in rows
    assert ["in", "all", "13.0"] in rows


def test_the_steps_fit_in_80_columns():
    shards = ShardChanges(
        {f"train-{i:04d}": (BuildReason.NEW,) for i in range(900)}, 0, 1000, 12345, 12345, 12345, NONE
    )
    lines = shown(BuildChanges(None, (BuildStep("encodec_latent_shards", 12345.6, shards),), 1.0), width=80)[1:]
    row = next(line for line in lines if "encodec" in line)
    assert row.split() == ["encodec_latent_shards", "12345.6", "900", "of", "1000", "12345", "12345", "12345", "24690"]
    assert "…" not in "".join(lines)


def test_an_interrupted_build_reports_how_many_partitions_are_left():
    shards = ShardChanges({"train-0000": (BuildReason.NEW,)}, 3, 4, 1, 0, 0, NONE)
    for seconds in (1.0, None):
        lines = shown(BuildChanges(None, (BuildStep("audio_shards", seconds, shards),), 1.0))
        assert lines[1] == "audio_shards: 3 partitions are still to build"


def test_samples_that_newly_lack_latents_are_named():
    shards = ShardChanges({}, 0, 4, 1, 0, 0, compare_rejects([], [Reject("shout", "not_finite", "has infinities")]))
    lines = shown(BuildChanges(None, (BuildStep("mel_latent_shards", 1.0, shards),), 1.0))
    assert lines[:2] == [
        "samples that got no latents in mel_latent_shards, new: 1",
        "shout: not_finite: has infinities",
    ]


def test_a_build_without_changes_prints_one_line():
    changes = BuildChanges(catalog(), (BuildStep("catalog", 0.3),), 0.42)
    line = nothing_changed("birds", changes, "audio: 4 shards in snapshot 7", "out/catalog/rejected.parquet")
    assert with_seconds(line, changes.seconds) == (
        "birds: nothing changed: 40 recordings, audio: 4 shards in snapshot 7; 3 rejected as before: "
        "out/catalog/rejected.parquet (0.4 s)"
    )
