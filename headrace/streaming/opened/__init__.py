"""Opens the streams of a dataset at one snapshot each."""
