"""Shared by test_table_forms and the tests beside it."""

from headrace.catalog.tables.metadata_files import in_memory, open_table, read_metadata
from headrace.config.tables import TableConfig


def by_metadata(path, **form):
    return read_metadata(path, form=TableConfig(**form))


def by_columns(path, **form):
    return in_memory(open_table(path, str(path), form=TableConfig(**form)))


def written(tmp_path, lines, separator="\t"):
    file = tmp_path / ("t.tsv" if separator == "\t" else "t.csv")
    file.write_text("".join(separator.join(line) + "\n" for line in lines))
    return file
