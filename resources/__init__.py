"""What assets are given by whoever runs them: stores, threads, encoders, a place to report progress."""
