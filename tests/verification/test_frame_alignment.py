"""Columns declared to have one entry per latent frame are checked."""

from pathlib import Path

from headrace.verification.frame_alignment import alignment_faults
from tests.support.audio_shards import tone, write_partition
from tests.support.latent_builds import Broken, Latents


def test_columns_with_another_length_than_the_latents_are_found(tmp_path: Path) -> None:
    """The column may be too short, missing, or not a list. The message says which, and what was expected."""
    latents = Latents(tmp_path)
    clips = {key: tone(0.1) for key in ("right", "short", "missing", "text")}
    labels = {"right": [0] * 11, "short": [0] * 10, "text": "Am"}
    metadata = {key: {"chord_indices": value} for key, value in labels.items()}
    write_partition(latents.audio, [clips], metadata=metadata)
    manifest = latents.build().manifest.manifest
    faults = list(alignment_faults(latents.storage, manifest, ["chord_indices"]))
    assert [(fault.key, fault.found) for fault in faults] == [("short", 10), ("missing", None), ("text", None)]
    assert "sample 'short': column 'chord_indices' has 10 entries, its latents have 11 frames" in str(faults[0])
    assert "missing or not a list" in str(faults[1])
    assert list(alignment_faults(latents.storage, manifest, [])) == []


def test_samples_with_rejected_latents_are_not_checked(tmp_path: Path) -> None:
    """The other samples are checked as usual."""
    latents = Latents(tmp_path)
    clips = {key: tone(seconds) for key, seconds in (("right", 0.1), ("rejected", 0.2), ("short", 0.3))}
    metadata = {"right": {"labels": [0] * 11}, "rejected": {"labels": [0] * 3}, "short": {"labels": [0]}}
    write_partition(latents.audio, [clips], metadata=metadata)
    latents.encoders = lambda: [Broken({len(clips["rejected"]): float("nan")})]
    manifest = latents.build().manifest.manifest
    assert [refusal.key for refusal in manifest.refused] == ["rejected"]
    assert [fault.key for fault in alignment_faults(latents.storage, manifest, ["labels"])] == ["short"]
