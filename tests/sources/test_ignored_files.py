"""Files that are no recordings by `source.ignore`, and links that lead out of the source by `source.follow_links`."""

import pytest

from headrace.config.source import SourceConfig
from headrace.errors import UnsafePathError
from headrace.sources.listing import FileStamp
from headrace.sources.sources import open_source
from headrace.stores.storage import open_storage
from tests.support.s3 import new_bucket
from tests.support.yaml_corpora import YamlCorpus

FILES = ["a.wav", "a.txt", "m/b.wav", "m/b.txt", "m/raw/c.wav", "raw/d.wav", "raw/e/f.wav", "notes"]
CASES = [
    ((), FILES),
    (("*.txt",), [name for name in FILES if not name.endswith(".txt")]),
    (("raw/**",), [name for name in FILES if not name.startswith("raw/")]),
    (("**/raw/*.wav",), [name for name in FILES if name not in {"m/raw/c.wav", "raw/d.wav"}]),
    (("m/*",), [name for name in FILES if name not in {"m/b.wav", "m/b.txt"}]),
    (("raw", "m"), FILES),  # names of files, not of folders
    (("notes", "?.txt", "[cd].wav"), ["a.wav", "m/b.wav", "raw/e/f.wav"]),
]


def listed(uri, **asked):
    return sorted(path for chunk in open_source(uri, **asked).list() for path in chunk.path)


@pytest.mark.parametrize(("patterns", "expected"), CASES)
def test_ignored_files_of_a_folder_are_not_listed(tmp_path, patterns, expected):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    assert listed(tmp_path, ignore=patterns) == sorted(expected)


@pytest.mark.medium
def test_ignored_objects_of_a_bucket_are_not_listed(s3_server, monkeypatch):
    url = f"{new_bucket(s3_server, monkeypatch)}/corpus"
    for name in FILES:
        open_storage(url).write(name, b"x")
    for patterns, expected in CASES:
        assert listed(url, ignore=patterns) == sorted(expected)


@pytest.mark.parametrize("pattern", ["", "/a", "./a", "[z-a]", 7, True])
def test_what_is_no_pattern_is_an_error(pattern):
    with pytest.raises(ValueError, match="ignore"):
        SourceConfig(uri="a", ignore=[pattern])


@pytest.fixture
def linked(tmp_path):
    """A corpus with links to a file and a folder outside, which links back and to itself."""
    corpus, outside = tmp_path / "corpus", tmp_path / "outside"
    for name in ("corpus/a.wav", "outside/b.wav", "outside/deep/c.wav", "outside/t.csv", "outside/x.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    (corpus / "link").symlink_to(outside)
    (corpus / "b2.wav").symlink_to(outside / "b.wav")
    (corpus / "x.txt").symlink_to(outside / "x.txt")
    (corpus / "gone.wav").symlink_to(outside / "gone.wav")
    (corpus / "self.wav").symlink_to(corpus / "self.wav")
    (outside / "back").symlink_to(corpus)
    (outside / "deep/up").symlink_to(outside)
    return corpus


def test_links_lead_out_only_if_they_may_and_circles_end(linked):
    asked = {"exclude": [linked.parent / "outside/t.csv"], "ignore": ["*.txt"]}
    chunks = list(open_source(linked, **asked).list())
    codes = {path: code for chunk in chunks for path, code in zip(chunk.path, chunk.code, strict=True)}
    assert codes == {
        "a.wav": None, "b2.wav": "outside_root", "link": "outside_root", "gone.wav": "outside_root",
        "self.wav": "unreadable",
    }  # fmt: skip
    chunks = list(open_source(linked, **asked, follow_links=True).list())
    codes = {path: code for chunk in chunks for path, code in zip(chunk.path, chunk.code, strict=True)}
    assert codes == {
        "a.wav": None, "b2.wav": None, "link/b.wav": None, "link/deep/c.wav": None,
        "gone.wav": "unreadable", "self.wav": "unreadable",
    }  # fmt: skip


@pytest.mark.parametrize("follow", [True, False])
def test_a_linked_recording_is_opened_only_if_links_may_lead_out(linked, follow):
    source = open_source(linked, follow_links=follow)
    stamp = FileStamp.of((linked / "b2.wav").stat())
    if follow:
        with source.open("b2.wav", stamp) as file:
            assert file.read() == b"outside/b.wav"
    else:
        with pytest.raises(UnsafePathError, match="outside the source root"), source.open("b2.wav", stamp):
            pass


@pytest.mark.medium
def test_from_the_yaml_to_samples(tmp_path):
    corpus = YamlCorpus(tmp_path)
    corpus.put("a.wav", "raw/b.wav", "../outside/c.wav")
    corpus.write("notes.txt", "no recording")
    (corpus.corpus / "link").symlink_to(tmp_path / "outside")
    asked = {"ignore": ["*.txt", "raw/**"], "follow_links": True}
    assert corpus.rejects(**asked) == {}
    sources = {sample["headrace"]["source"] for sample in corpus.samples(**asked).values()}
    assert sources == {"a.wav", "link/c.wav"}
    assert set(corpus.rejects(ignore=["raw/**"])) == {"link", "notes.txt"}
