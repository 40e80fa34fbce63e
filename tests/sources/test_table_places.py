"""The files of the metadata table: which paths and patterns find, where, and in which order."""

import pytest

from headrace.sources.table_places import table_places
from headrace.stores.storage import open_storage
from tests.support.s3 import new_bucket

FILES = ["root/a.csv", "root/m/b.csv", "root/m/c.csv", "root/[1].csv", "corpus/d.csv", "corpus/m/e.csv",
         "corpus/x/y/f.txt", "corpus/x/g.txt", "corpus/out/h.txt", "corpus/.hidden/i.txt"]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("path\n")
    return tmp_path


def found(folder, *names, source=None):
    def resolve(name):
        return name if name.startswith("/") or "://" in name else str(folder / "root" / name)

    places = table_places(names, resolve, source or str(folder / "corpus"), str(folder / "corpus/out"))
    return [one.place.removeprefix(f"{folder}/") for one in places]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.csv"], ["root/a.csv"]),
        (["d.csv"], ["corpus/d.csv"]),  # not below the root: below the source
        (["m/*.csv"], ["root/m/b.csv", "root/m/c.csv"]),  # below the root: not looked for elsewhere
        (["m/c.csv", "m/b.csv"], ["root/m/b.csv", "root/m/c.csv"]),  # in the order of their names
        (["m/*.csv", "m/b.csv", "./m/b.csv"], ["root/./m/b.csv", "root/m/b.csv", "root/m/c.csv"]),
        (["**/*.txt"], ["corpus/x/g.txt", "corpus/x/y/f.txt"]),  # neither the output nor hidden folders
        (["x/*.txt", "a.csv"], ["corpus/x/g.txt", "root/a.csv"]),
        (["[1].csv"], ["root/[1].csv"]),  # a file of that very name
        (["[ad].csv"], ["root/a.csv"]),
        (["gone.csv"], ["root/gone.csv"]),
        (["gone*.csv", "a.csv"], ["root/a.csv", "root/gone*.csv"]),
    ],
)
def test_paths_and_patterns_find_files_below_the_root_or_the_source(folder, names, expected):
    assert found(folder, *names) == expected


def test_absolute_patterns_and_a_root_with_special_characters(tmp_path):
    odd = tmp_path / "my [x] data"
    for name in ("root/m/a.csv", "corpus/n/b.csv"):
        (odd / name).parent.mkdir(parents=True)
        (odd / name).write_text("path\n")
    assert found(odd, "m/*.csv") == ["root/m/a.csv"]
    assert found(odd, "n/*.csv") == ["corpus/n/b.csv"]
    assert found(tmp_path, f"{tmp_path}/my*/*/*/*.csv") == [
        "my [x] data/corpus/n/b.csv", "my [x] data/root/m/a.csv"
    ]  # fmt: skip


def test_objects_of_a_bucket_are_found_by_their_url_and_below_a_source_in_a_bucket(folder, s3_server, monkeypatch):
    url = f"{new_bucket(s3_server, monkeypatch)}/corpus"
    for name in ("m/a.csv", "m/b.csv", "m/n/c.csv", "d.csv"):
        open_storage(url).write(name, b"path\n")
    assert found(folder, f"{url}/m/*.csv") == [f"{url}/m/a.csv", f"{url}/m/b.csv"]
    assert found(folder, f"{url}/**/?.csv") == [f"{url}/{name}.csv" for name in ("d", "m/a", "m/b", "m/n/c")]
    assert found(folder, "m/n/*.csv", "d.csv", "a.csv", source=url) == [
        "root/a.csv", f"{url}/d.csv", f"{url}/m/n/c.csv"
    ]  # fmt: skip


HIDDEN = ("m/._a.csv", "m/.x/b.csv", ".x/c.csv", ".d.csv")


@pytest.mark.parametrize("pattern", ["*.csv", "m/*.csv", "**/*.csv", "**/?*.csv", "m/**/[!x]*.csv", ".*.csv", "*/.x/*"])
def test_a_pattern_finds_hidden_files_in_no_store_unless_it_names_them(tmp_path, s3_server, monkeypatch, pattern):
    url = f"{new_bucket(s3_server, monkeypatch)}/corpus"
    for name in (*HIDDEN, "e.csv", "m/f.csv", "m/n/g.csv"):
        open_storage(url).write(name, b"path\n")
        open_storage(str(tmp_path / "corpus")).write(name, b"path\n")
    assert found(tmp_path, f"{url}/{pattern}") == [
        one.replace("corpus", url, 1) for one in found(tmp_path, f"{tmp_path}/corpus/{pattern}")
    ]
