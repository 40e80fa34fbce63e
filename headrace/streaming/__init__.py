"""What a training job imports: an exact, elastic, resumable order of samples, and the loader that follows it."""
