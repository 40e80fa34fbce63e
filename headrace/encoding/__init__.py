"""Computes latents from audio shards: windows, batches, decoding, encoders on devices, and the latent shards."""
