"""The catalog: a table of the usable recordings of a source, and a table of what was rejected and why."""
