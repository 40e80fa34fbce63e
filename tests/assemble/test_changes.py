"""The changes of a build, computed from the states before and after it."""

import dataclasses

import pytest

from headrace.assemble.build_reasons import BuildReason, why_build
from headrace.assemble.changes import BuildChanges, BuildStep, ShardsBefore, shard_changes
from headrace.assemble.latents import LatentSettings
from headrace.assemble.shard_settings import ShardSettings
from headrace.audio import AudioFormat
from headrace.catalog.compared.changes import CatalogChanges
from headrace.config.partitioning import ShardSize
from headrace.encoding.plans import NoLatents
from headrace.format.manifests.manifests import Manifest, ManifestRejection, ShardEntry
from headrace.format.rejects import Reject, compare_rejects

AUDIO = ShardSettings(AudioFormat(None, None, None), ShardSize(4))
MEL = LatentSettings("mel")


def manifest(partition="train-0000", shards="", settings=AUDIO, source="recordings"):
    """A manifest of shards of 9 bytes that are named by letters."""
    entries = tuple(ShardEntry(f"{name}.tar", 9, 1, 1, 1.0, name, 1) for name in shards)
    layout = settings.layout if isinstance(settings, ShardSettings) else {}
    return Manifest(partition, settings.wanted(source), source, layout, entries)


def listing(shards):
    return {name: 9 for shard in shards for name in (f"{shard}.tar", f"{shard}.idx")}


@pytest.mark.parametrize(
    ("found", "source", "settings", "why"),
    [
        (None, "recordings", AUDIO, (BuildReason.NEW,)),
        (manifest(), "recordings", AUDIO, ()),
        (manifest(), "others", AUDIO, (BuildReason.RECORDINGS,)),
        (
            manifest(),
            "recordings",
            dataclasses.replace(AUDIO, audio=AudioFormat(8000, None, None)),
            (BuildReason.SETTINGS,),
        ),
        (manifest(), "recordings", dataclasses.replace(AUDIO, size=ShardSize(5)), (BuildReason.LAYOUT,)),
        (manifest(), "recordings", dataclasses.replace(AUDIO, reshuffle=1), (BuildReason.LAYOUT,)),
        (
            manifest(),
            "others",
            ShardSettings(AudioFormat(8000, None, None), ShardSize(5)),
            (BuildReason.RECORDINGS, BuildReason.LAYOUT, BuildReason.SETTINGS),
        ),
        (manifest(settings=MEL), "recordings", MEL, ()),
        (manifest(settings=MEL), "other audio", MEL, (BuildReason.AUDIO,)),
        (manifest(settings=MEL), "recordings", LatentSettings("other"), (BuildReason.ENCODER,)),
        (manifest(settings=MEL), "recordings", LatentSettings("mel", "float32"), (BuildReason.ENCODER,)),
        (manifest(settings=MEL), "other audio", LatentSettings("other"), (BuildReason.AUDIO, BuildReason.ENCODER)),
    ],
)
def test_the_reason_for_a_partition_names_only_what_differs(found, source, settings, why):
    assert why_build(found, source, settings) == why
    if found is not None:
        assert why_build(found, source, settings, is_damaged=True) == (*why, BuildReason.MISSING)
        assert bool(why) is (found.wanted != settings.wanted(source))


def test_shards_are_written_reused_or_removed():
    before = ShardsBefore(
        {"train-0000": manifest(shards="ab"), "train-0001": manifest("train-0001", "cd")},
        listing("abcd"),
        {"train-0000": (BuildReason.RECORDINGS,)},
    )
    layout = ("train-0000", "train-0001")
    changes = shard_changes(before, {"train-0000": manifest(shards="aef")}, layout, {"train-0000"})
    assert (changes.num_written, changes.num_reused, changes.num_removed, changes.num_shards) == (2, 3, 1, 5)
    assert (changes.built, changes.num_waiting) == ({"train-0000": (BuildReason.RECORDINGS,)}, 0)


def test_a_shard_that_was_missing_or_truncated_and_exists_now_counts_as_written():
    held = {"train-0000": manifest(shards="abc")}
    sizes = listing("abc") | {"b.tar": 3}
    del sizes["c.idx"]
    before = ShardsBefore(held, sizes, {"train-0000": (BuildReason.MISSING,)})
    changes = shard_changes(before, held, ("train-0000",), {"train-0000"})
    assert (changes.num_written, changes.num_reused, changes.num_removed) == (2, 1, 0)


def test_shards_of_a_killed_build_count_as_reused():
    before = ShardsBefore({}, listing("a"), {"train-0000": (BuildReason.NEW,)})
    changes = shard_changes(before, {"train-0000": manifest(shards="ab")}, ("train-0000",), {"train-0000"})
    assert (changes.num_written, changes.num_reused, changes.num_removed) == (1, 1, 0)


def test_shards_of_partitions_that_left_the_layout_count_as_removed():
    before = ShardsBefore(
        {"train-0000": manifest(shards="a"), "old-0000": manifest("old-0000", "bc")}, listing("abc"), {}
    )
    assert shard_changes(before, {}, ("train-0000",), ()).num_removed == 2


REASONS = [
    NoLatents.not_finite(),
    NoLatents.overflow("float16"),
    NoLatents.no_codes("codes", "int16"),
    NoLatents.no_text("caption"),
    NoLatents.no_tokens(),
]


@pytest.mark.parametrize("why", REASONS)
def test_samples_that_newly_lack_latents_are_rejects_and_recordings_are_the_catalogs(why):
    old, new = (ManifestRejection("a.wav", why.code, why.reason, key) for key in ("old", "new"))
    before = ShardsBefore({"train-0000": dataclasses.replace(manifest(shards="a"), refused=(old,))}, {}, {})
    recording = ManifestRejection("b.wav", "undecodable", "no header")
    after = {"train-0000": dataclasses.replace(manifest(shards="b"), refused=(old, new, recording))}
    rejects = shard_changes(before, after, ("train-0000",), ()).rejects
    assert rejects.new == (Reject("new", why.code, why.reason),)
    assert rejects.faults == {why.code: 2}


def test_partitions_that_were_not_reached_are_pending():
    before = ShardsBefore({}, {}, dict.fromkeys(("train-0000", "train-0001", "train-0002"), (BuildReason.NEW,)))
    changes = shard_changes(before, {"train-0000": manifest(shards="a")}, tuple(before.why), {"train-0000"})
    assert (list(changes.built), changes.num_waiting, changes.num_written) == (["train-0000"], 2, 1)


def test_a_scan_with_an_equal_catalog_changed_nothing():
    same = CatalogChanges((), (), (), (), compare_rejects([], []), 3)
    assert BuildChanges(same, (BuildStep("catalog", 0.1),), 0.2).is_nothing
    assert not BuildChanges(same, (BuildStep("catalog", 0.1), BuildStep("dataset_report", 0.1)), 0.2).is_nothing
    assert not BuildChanges(dataclasses.replace(same, added=("a.wav",)), (BuildStep("catalog", 0.1),), 0.2).is_nothing
    assert not BuildChanges(None, (), 0.2).is_nothing
