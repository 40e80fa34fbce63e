"""Tables of the user, written to a file and read as metadata."""

from headrace.catalog.tables.metadata_files import read_metadata


def table(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_metadata(path)
