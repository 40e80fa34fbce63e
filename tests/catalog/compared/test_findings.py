"""Findings of checks that are kept, so that a catalog that was checked is not read again."""

import pytest

from headrace.catalog.compared import findings
from headrace.catalog.compared.findings import FINDINGS_FOLDER, findings_of
from headrace.catalog.scanning.scan import scan
from headrace.catalog.stored.parts import StoredCatalog
from headrace.catalog.stored.storing import store_catalog
from headrace.stores.storage import LocalStorage
from tests.support.catalog_fakes import AT_ONCE, FakeSource, fake_runtime
from tests.support.projects import Project

pytestmark = pytest.mark.medium


class World:
    """A stored catalog. `look` returns the findings, and whether the catalog was checked for them."""

    def __init__(self, folder):
        self.project, self.output, self.source = Project(folder), LocalStorage(folder / "store"), FakeSource()
        self.source.put("a.wav", b"1")
        self.lines = ["a fault", "ein Fehler: ä"]
        self.sections = {}

    def look(self, name="check"):
        self.project.write_yaml(**self.sections)
        config, calls = self.project.config(), []
        catalog = scan(self.source, None, AT_ONCE, None, fake_runtime()).catalog
        stored = StoredCatalog(self.output, store_catalog(self.output, catalog, config))
        return findings_of(stored, config, name, lambda: calls.append(1) or self.lines), bool(calls)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.mark.parametrize("lines", [[], ["a fault", "ein Fehler: ä"]])
def test_the_findings_of_the_same_catalog_are_kept(world, lines):
    world.lines = lines
    assert world.look() == (lines, True)
    assert world.look() == (lines, False)
    assert world.look("another check") == (lines, True)


def spoil(world):
    path = next(world.output.list(FINDINGS_FOLDER)).path
    world.output.write(path, world.output.read(path).replace(b"a fault", b"a-fault"))


CHANGES = {
    "another file": lambda world: world.source.put("b.wav", b"2"),
    "another rejected file": lambda world: world.source.put("bad.wav", b"bad"),
    "another setting": lambda world: world.sections.update(loader={"num_workers": 1}),
    "a damaged file": spoil,
    "a deleted file": lambda world: world.output.delete(f"{FINDINGS_FOLDER}check.json"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_check_is_made_again_after_a_change(world, name):
    world.look()
    CHANGES[name](world)
    assert world.look()[1]
    assert not world.look()[1]


def test_a_check_is_made_again_by_other_code(world, monkeypatch):
    world.look()
    monkeypatch.setattr(findings, "code_digest", lambda: "other")
    assert world.look()[1]


def test_very_many_findings_are_not_kept(world):
    world.lines = ["a fault"] * 1001
    assert world.look()[1]
    assert world.look() == (world.lines, True)
