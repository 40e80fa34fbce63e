"""Every use of Dagster that Dagster does not document, one module per need.

Dagster's public interface is what `import dagster as dg` holds and what its API pages describe. Each module here needs
something else: a private module (`dagster._…`), a method of the instance's event log storage, or a table. Its
docstring names what it uses, why, which public interface is missing, and which test fails first when a new version of
Dagster changes it. ruff rejects imports of Dagster's private modules everywhere else (`banned-api` in pyproject.toml).
"""
