"""Documents in docs/design have unique numbers, and links between documents are valid."""

import re
from pathlib import Path

DECISIONS = sorted(Path("docs/design").glob("[0-9]*.md"))
INDEX = Path("docs/design/README.md")


def test_every_decision_has_a_unique_number_in_name_and_title():
    numbers = [path.name[:4] for path in DECISIONS]
    assert len(set(numbers)) == len(numbers)
    for path, number in zip(DECISIONS, numbers, strict=True):
        assert path.read_text().startswith(f"# {number} · "), path


def test_the_index_names_every_decision_once():
    linked = re.findall(r"\]\((\d[^)]+)\)", INDEX.read_text())
    assert sorted(linked) == [path.name for path in DECISIONS]


def test_links_between_documents_are_valid():
    documents = [
        *DECISIONS,
        INDEX,
        *Path("docs").glob("*.md"),
        Path("README.md"),
        Path("CONTRIBUTING.md"),
        Path("CHANGELOG.md"),
    ]
    for document in documents:
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / link).exists(), f"{document}: {link}"
