"""Orders that make batches of samples of similar length."""
