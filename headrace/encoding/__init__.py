"""From the audio in shards to latents: cutting, batching, decoding, running encoders; `headrace.latents` builds on it."""
