"""From the audio in shards to latents: cutting, batching, decoding, running encoders. No manifests here."""
