"""Writes the API pages to `build/docs`, from docstrings: `python tools/make_docs.py [FOLDER]`.

The public names of `headrace` come first; every package below has a page. A docstring that pdoc warns of is an error.
"""

import importlib
import os
import pkgutil
import sys
import warnings
from pathlib import Path

import pdoc

ROOT = Path(__file__).resolve().parents[1]


def main(folder: Path) -> int:
    """Write the pages. Returns the exit code: 1 if there was a warning."""
    os.environ["PDOC_ALLOW_EXEC"] = "1"  # torch asks the system about itself when it is imported
    for name in ("obstore.store", "torch"):
        importlib.import_module(name)  # the library imports them late, where pdoc would meet them half loaded
    store = importlib.import_module("obstore.store").ObjectStore  # pdoc cannot follow obstore's own typing imports
    for name in ("headrace.stores.objects", "headrace.stores.storage"):
        vars(importlib.import_module(name))["ObjectStore"] = store
    headrace = importlib.import_module("headrace")
    for module in (headrace, importlib.import_module("headrace.testing")):
        for name in module.__all__:
            setattr(module, name, getattr(module, name))  # pdoc does not ask for names that are loaded on first use
    pdoc.render.configure(docformat="google", search=True, show_source=True)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        below = [f"headrace.{module.name}" for module in pkgutil.iter_modules(headrace.__path__)]  # hidden by `__all__`
        pdoc.pdoc("headrace", *below, "headrace_dagster", output_directory=folder)
    problems = [str(warning.message) for warning in found if issubclass(warning.category, UserWarning)]
    print("\n".join(problems) or f"{folder}/index.html")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # the checkout's modules, also those outside of the wheel
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/docs"))
