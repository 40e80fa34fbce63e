"""What is wrong with a data set's YAML, in YAML's words: pydantic speaks of Python's.

Owns the sentences. What is right says `headrace.config`.
"""

import difflib
from typing import Any, get_args, get_origin

from pydantic import BaseModel


def described(fault: Any, root: type[BaseModel]) -> str:  # noqa: ANN401 - pydantic's ErrorDetails is not public
    """One line for a person: key, what is wrong, what was found; `root` is the model of the whole file."""
    where = ".".join(str(part) for part in fault["loc"]) or "the data set"
    if fault["type"] == "extra_forbidden":
        known = _known_keys(root, fault["loc"][:-1])
        close = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        return f"{where}: unknown key; {hint}known here: {', '.join(known)}"
    if fault["type"] == "missing":
        return f"{where}: missing; this key has no default"
    if fault["loc"] == ("name",):
        return f"the file's name is the data set's: a letter, then letters, digits and _; found {fault['input']!r}"
    message = _expected(root, fault) or fault["msg"].removeprefix("Value error, ")
    shows = fault["loc"] and not _may_be_secret(fault["loc"])  # without a key it would be the whole file
    found = f"; found {fault['input']!r}" if shows else ""
    return f"{where}: {message[0].lower() + message[1:]}{found}"


def _may_be_secret(location: tuple[str | int, ...]) -> bool:
    """Whether somebody may have written a webhook or a password there, which belong in the environment."""
    return location[0] == "alerts" and location[1:2] not in {("email_from",), ("email_to",)}


def _expected(root: type[BaseModel], fault: Any) -> str | None:  # noqa: ANN401
    """In YAML's words what pydantic says in Python's: a section, or a list."""
    if fault["type"] in {"model_type", "dict_type"}:
        section = _annotation(root, fault["loc"])
        fields = getattr(section, "model_fields", {"train": None})  # else splits or shards.partitions
        needed = [name for name, info in fields.items() if info is not None and info.is_required()]
        return f"expected keys, such as {{{', '.join(f'{name}: …' for name in needed or list(fields)[:1])}}}"
    return "expected a list: […]" if fault["type"] == "tuple_type" else None


def _annotation(root: type[BaseModel], location: tuple[str | int, ...]) -> Any:  # noqa: ANN401 - a section, or the type of a key
    section: Any = root
    for part in location:
        if isinstance(part, int):
            continue
        annotation = section.model_fields[part].annotation
        section = get_args(annotation)[0] if get_origin(annotation) is tuple else annotation
    return section


def _known_keys(root: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    section = _annotation(root, location)
    fields = {info.alias or name for name, info in section.model_fields.items()}
    return sorted(fields - {"name"} if section is root else fields)
