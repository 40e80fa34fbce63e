"""Columns with one entry per latent frame are proven to have it."""

from pathlib import Path

from headrace.frame_alignment import alignment_faults
from tests.audio_shards import tone, write_partition
from tests.latent_builds import Latents


def test_columns_of_another_length_than_the_latents_are_found(tmp_path: Path) -> None:
    """Too short, missing, or no list; the message says which and what was expected."""
    latents = Latents(tmp_path)
    clips = {key: tone(0.1) for key in ("right", "short", "missing", "text")}
    labels = {"right": [0] * 11, "short": [0] * 10, "text": "Am"}
    metadata = {key: {"chord_indices": value} for key, value in labels.items()}
    write_partition(latents.audio, [clips], metadata=metadata)
    manifest = latents.build().manifest.manifest
    faults = list(alignment_faults(latents.storage, manifest, ["chord_indices"]))
    assert [(fault.key, fault.found) for fault in faults] == [("short", 10), ("missing", None), ("text", None)]
    assert "sample 'short': column 'chord_indices' has 10 entries, its latents have 11 frames" in str(faults[0])
    assert "missing or no list" in str(faults[1])
    assert list(alignment_faults(latents.storage, manifest, [])) == []
