"""Opens the places that recordings come from: lists them, and detects changes without opening a file."""
