"""Samples are counted by where their audio comes from."""

from headrace.assemble.audio_counts import NO_AUDIO, AudioCounts
from headrace.audio import AudioOrigin

COUNTS = AudioCounts(num_encoded=1, num_as_recorded=2, num_taken_over=3)


def test_counts_are_read_back_from_the_metadata_of_an_asset():
    assert COUNTS.named() == {"samples_encoded": 1, "samples_as_recorded": 2, "samples_taken_over": 3}
    assert AudioCounts.of_metadata(COUNTS.named()) == COUNTS
    assert AudioCounts.of_metadata({"samples_encoded": 4, "samples_taken_over": "x"}) == AudioCounts(num_encoded=4)
    assert AudioCounts.of_metadata({}) == NO_AUDIO


def test_counts_are_added():
    assert AudioCounts(2, 4, 6) == COUNTS + COUNTS + NO_AUDIO


def test_only_what_is_not_zero_is_said():
    assert str(COUNTS) == "1 encoded, 2 as recorded, 3 taken over"
    assert str(AudioCounts(num_taken_over=5)) == "5 taken over"
    assert str(NO_AUDIO) == ""


def test_origins_are_counted():
    assert AudioCounts.of_origins({AudioOrigin.SHARD: 7, AudioOrigin.ENCODER: 1}) == AudioCounts(1, 0, 7)
