"""Makes the site of the documentation: `python tools/make_docs.py [FOLDER]`, by default into `build/docs`.

The site has the README, the pages of `docs/` and the decisions, and an API page for each package, from the docstrings,
with a search. Files of the repository that pages link to are copied into the site, because the project has no address
yet. A warning of MkDocs, such as a link that leads nowhere or a docstring that it cannot read, is an error.
"""

import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")  # beside the README
_LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)")
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_GROUPS = {
    "Data sets": "adopt sources corpora config latents dagster operations",
    "Training": "batches order scaling trainers migrating tars",
    "Hand on": "exports format benchmarks",
    "Project": "code glossary",
}
_NAMES = "headrace", "headrace_dagster"
_OPTIONS = {
    "docstring_style": "google",
    "extensions": [str(ROOT / "tools/docs_doctests.py")],
    "heading_level": 2,
    "members_order": "source",
    "separate_signature": True,
    "show_root_heading": True,
    "show_signature_annotations": True,
    "show_source": False,
    "show_submodules": True,
}


def main(folder: Path) -> int:
    """Make the site. Returns the exit code: 1 if there was a warning."""
    sources = folder.with_name(f"{folder.name}-pages")
    shutil.rmtree(sources, ignore_errors=True)
    pages = {"README.md": "index.md", **{name: name for name in _PAGES}}
    pages |= {str(path.relative_to(ROOT)): str(path.relative_to(ROOT / "docs")) for path in _written()}
    for name, page in pages.items():
        _write(sources / page, _page(name, pages, sources))
    api = dict(_api_pages())
    for page, content in api.items():
        _write(sources / page, content)
    config = sources.with_suffix(".yml")
    config.write_text(yaml.safe_dump(_settings(sources, pages, list(api)), sort_keys=False))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--site-dir", folder.resolve()]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # of the theme, about a later MkDocs
    done = subprocess.run(  # noqa: S603 - fixed words
        [*command, "--config-file", config], check=False, cwd=ROOT, env=quiet
    )
    print(f"{folder}/index.html" if done.returncode == 0 else "Warnings are errors.")
    return min(done.returncode, 1)


def _written() -> Iterator[Path]:
    yield from sorted((ROOT / "docs").rglob("*.md"))


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def _page(name: str, pages: dict[str, str], sources: Path) -> str:
    """A page whose links lead to other pages of the site, and to copies of other files."""
    here = ROOT / name

    def moved(found: re.Match[str]) -> str:
        start, target = found.groups()
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        wanted = (here.parent / target).resolve().relative_to(ROOT)
        up = "../" * pages[name].count("/")
        return f"{start}{up}{_place(wanted, pages, sources)}"

    parts = _FENCE.split(here.read_text())
    return "".join(part if _FENCE.fullmatch(part) else _LINK.sub(moved, part) for part in parts)


def _place(wanted: Path, pages: dict[str, str], sources: Path) -> str:
    """The place in the site of a file or folder of the repository; what is no page is copied."""
    if str(wanted) in pages:
        return pages[str(wanted)]
    if f"{wanted}/README.md" in pages:
        return pages[f"{wanted}/README.md"]
    if wanted.is_relative_to("docs"):
        return str(_copied(wanted, sources, wanted.relative_to("docs")))
    if (ROOT / wanted).is_dir():
        files = sorted(path.name for path in (ROOT / wanted).iterdir() if path.is_file())
        copies = [_copied(wanted / name, sources, Path("files") / wanted / name) for name in files]
        listed = "".join(f"- [{copy.name}]({copy.name})\n" for copy in copies)
        _write(sources / "files" / wanted / "index.md", f"# {wanted}\n\n{listed}")
        return f"files/{wanted}/index.md"
    return str(_copied(wanted, sources, Path("files") / wanted))


def _copied(wanted: Path, sources: Path, place: Path) -> Path:
    (sources / place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / wanted, sources / place)
    return place


def _api_pages() -> Iterator[tuple[str, str]]:
    """Path and content of each API page: the public names first, then a page for each package."""
    faces = "".join(f"::: {home}.{name}\n    options: {{skip_local_inventory: true}}\n\n" for name, home in _public())
    yield "api/index.md", f"# API\n\nThe public names, which `from headrace import …` gives.\n\n{faces}"
    for package in _NAMES:
        for module in pkgutil.iter_modules([str(ROOT / package)]):
            if not module.name.startswith("_"):
                yield f"api/{package}.{module.name}.md", f"# {package}.{module.name}\n\n::: {package}.{module.name}\n"


def _public() -> Iterator[tuple[str, str]]:
    sys.path.insert(0, str(ROOT))
    yield from vars(importlib.import_module("headrace"))["_HOMES"].items()


def _settings(sources: Path, pages: dict[str, str], api: list[str]) -> dict[str, object]:
    """The settings of MkDocs. Nothing is loaded from another host."""
    grouped = [{title: [f"{name}.md" for name in names.split()]} for title, names in _GROUPS.items()]
    for group, place, title, folder in ((0, 2, "Kinds of sources", "sources/"), (1, 4, "Each trainer", "trainers/")):
        found = sorted(page for page in pages.values() if page.startswith(folder))
        next(iter(grouped[group].values())).insert(place, {title: found})
    decisions = sorted(page for page in pages.values() if page.startswith("design/"))
    grouped[-1]["Project"] += [*_PAGES, {"Decisions": decisions}]
    handler = {"paths": [str(ROOT)], "options": _OPTIONS}
    return {
        "site_name": "Headrace",
        "docs_dir": str(sources.resolve()),
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.indexes", "navigation.top", "search.highlight", "search.suggest", "toc.follow"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "teal"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "teal"},
            ],
        },
        "plugins": ["search", {"mkdocstrings": {"handlers": {"python": handler}}}],
        "markdown_extensions": [
            "admonition",
            "attr_list",
            "tables",
            "pymdownx.superfences",
            {"pymdownx.highlight": {"use_pygments": True}},
            {"toc": {"permalink": True}},
        ],
        "validation": {"nav": {"omitted_files": "ignore"}, "links": {"anchors": "warn", "not_found": "warn"}},
        "nav": [{"Home": "index.md"}, *grouped, {"API": api}],
    }


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/docs"))
