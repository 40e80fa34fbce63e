"""The rows of the catalog's tables and of the user's table, as typed values and columns."""

__all__ = [
    "column_types",
    "field_files",
    "metadata_columns",
    "metadata_rows",
    "path_spelling",
    "recordings",
    "row_columns",
    "row_paths",
    "schemas",
]
