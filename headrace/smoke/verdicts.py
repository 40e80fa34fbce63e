"""Names and descriptions of the checks of a smoke test.

They are not in `headrace.smoke.run`, because that module imports polars, and a code server needs only the names.
"""

VERDICTS = {
    "every_key_once": "every sample of the shards that are read arrives exactly once, and no other sample arrives",
    "counts_match_sizes": (
        "sizes.json, snapshot and indexes have the same sample counts, and loaders deliver as many samples"
    ),
    "shapes_and_lengths": "every sample has the length, channels, rate or dimension that is in its index",
    "finite_values": "all values are finite; audio that is stored as FLAC is in [-1, 1]",
    "full_scale": "at most a tenth of the samples of a recording are at full scale or beyond it",
    "matches_json": "audio has the length in its JSON; latents have the length of their audio by their frame rate",
    "same_in_both_readers": "`StreamingDataset` and the plain pipeline return the same values for every key",
    "joined_by_key": "audio with its latents: every key arrives once, with the same values as when read alone",
    "latents_match_audio": "one sample of each partition that is read is encoded again, and gives the stored latents",
    "equal_batches": "two ranks get equally many batches of the same size",
    "resumes_exactly": "a job that is saved within an epoch and resumed gets exactly the remaining batches",
    "leaves_nothing": "the test leaves no process and no file behind",
    "result_table": "the table of results has the expected columns and ranges (pandera)",
}

WARNINGS = frozenset({"full_scale"})
"""Checks that warn: what they find may be as the recording is, and does not keep the test from passing."""
