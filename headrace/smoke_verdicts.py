"""What a smoke test says, by name.

Apart from `headrace.smoke`, which brings polars: a code server needs the names alone.
"""

VERDICTS = {
    "every_key_once": "every sample of the snapshot arrives exactly once, and nothing else does",
    "counts_match_sizes": "each shard gives as many samples as sizes.json says",
    "shapes_and_lengths": "every sample has the length, channels, rate or dimension that its index says",
    "finite_values": "all values are finite numbers; audio lies in [-1, 1]",
    "matches_json": "audio is as long as its JSON says, latents as long as their audio by their frame rate",
    "equal_batches": "two ranks get the same number of batches of the same size",
    "resumes_exactly": "a job that is saved in mid-epoch and started again gets just the batches that were left",
    "leaves_nothing": "no process is left behind, and no file",
    "result_table": "the table of results has the columns and ranges that it should have (pandera)",
}
