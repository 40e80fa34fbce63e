"""Turns pydantic's errors about a data set's YAML into lines for people: key, what was expected, what was found.

`headrace.pydantic_words` describes single values.
"""

import difflib
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from headrace.pydantic_words import shown, wrong

_KEY_ITSELF = "[key]"  # pydantic's mark of an error in a key, not in its value
_NAMES_OF_USERS = {"splits": "train", "partitions": "train", "views": "clean", "fields": "mix"}
"""Key of the YAML → example of a name that the user chooses below it."""


def error_line(fault: Any, root: type[BaseModel], content: Mapping[str, object]) -> str:  # noqa: ANN401 - pydantic's ErrorDetails is not public
    """Describe an error in one line: key, what was expected, what was found.

    Args:
        fault: pydantic's `ErrorDetails`.
        root: the model of the whole file.
        content: the content of the file.
    """
    location = tuple(part for part in fault["loc"] if part != _KEY_ITSELF)
    if location == ("name",):
        name = shown(fault["input"])
        return f"the data set is named after the file: expected a letter, then letters, digits and _; found {name}"
    where = _where(location, content)
    if fault["type"] == "extra_forbidden":
        known = _known_keys(root, location[:-1])
        if not known:
            return f"{where}: unknown key; there are no keys here, remove it"
        close = difflib.get_close_matches(str(location[-1]), known, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        return f"{where}: unknown key; {hint}the keys here are {', '.join(known)}"
    if fault["type"] == "missing":
        return f"{where}: missing; this key is required"
    if not location:  # a check of several keys; its message names them
        return wrong(fault)
    if fault["type"] in {"model_type", "dict_type"}:
        message = f"expected keys and values, such as {_example(root, location)}"
    else:
        message = _with_default(wrong(fault), fault, root, location)
    return f"{where}: {message}{_found(fault, location)}"


def _where(location: Sequence[str | int], content: Mapping[str, object]) -> str:
    """The path of a key; list entries by number and by their own name: `latents[0] (crepe).dtype`."""
    text = ""
    value: Any = content
    for part in location:
        is_entry = isinstance(value, list)
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):  # a missing key
            value = None
        if is_entry:
            name = value.get("name") if isinstance(value, Mapping) else None
            text += f"[{part}]" + (f" ({name})" if isinstance(name, str) and name else "")
        else:
            text += f".{part}" if text else str(part)
    return text


def _with_default(message: str, fault: Any, root: type[BaseModel], location: Sequence[str | int]) -> str:  # noqa: ANN401
    """The message; for a key without a value, also how to get its default."""
    if fault["input"] is not None:
        return message
    fields = getattr(_annotation(root, location[:-1]), "model_fields", {})
    has_default = any(not info.is_required() for name, info in fields.items() if (info.alias or name) == location[-1])
    return f"{message}; remove the key to use its default" if has_default else message


def _found(fault: Any, location: Sequence[str | int]) -> str:  # noqa: ANN401
    """The value that was found; empty if the message has it already, or if the value may be a secret."""
    is_in_message = fault["type"] == "value_error" and isinstance(fault["input"], Mapping | list | tuple)
    return "" if is_in_message or _may_be_secret(location) else f"; found {shown(fault['input'])}"


def _may_be_secret(location: Sequence[str | int]) -> bool:
    """Whether the value may be a webhook URL or a password that belongs in the environment."""
    return location[0] == "alerts" and tuple(location[1:2]) not in {("email_from",), ("email_to",)}


def _example(root: type[BaseModel], location: Sequence[str | int]) -> str:
    """The required keys of a section, or its first key; of names that the user chooses, an example."""
    section = _annotation(root, location)
    if get_origin(section) in {dict, Mapping}:  # keys that the user chooses
        return f"{{{_NAMES_OF_USERS.get(str(location[-1]), 'name')}: …}}"
    fields = getattr(section, "model_fields", {})
    needed = [name for name, info in fields.items() if info is not None and info.is_required()]
    return f"{{{', '.join(f'{name}: …' for name in needed or list(fields)[:1])}}}"


def _annotation(root: type[BaseModel], location: Sequence[str | int]) -> Any:  # noqa: ANN401 - a section, or the type of a key
    """The type of the value at a place; None where the place is not part of the settings."""
    section: Any = root
    for part in location:
        if isinstance(part, int):
            continue
        if get_origin(section) in {dict, Mapping}:  # the part is a name of the user's: of a view, a split or a field
            section = _section_in(get_args(section)[1])
            continue
        fields = {info.alias or name: info for name, info in getattr(section, "model_fields", {}).items()}
        section = _section_in(fields[part].annotation) if part in fields else None
    return section


def _section_in(annotation: Any) -> Any:  # noqa: ANN401 - as above
    """The section that a type has: of `BalanceConfig | None` and of a tuple of sections; otherwise the type itself."""
    arguments = get_args(annotation)
    if get_origin(annotation) is tuple:
        return arguments[0]
    sections = [one for one in arguments if isinstance(one, type) and issubclass(one, BaseModel)]
    is_union = get_origin(annotation) in {Union, UnionType}
    return sections[0] if is_union and len(sections) == 1 else annotation


def _known_keys(root: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    section = _annotation(root, location)
    fields = {info.alias or name for name, info in getattr(section, "model_fields", {}).items()}
    return sorted(fields - {"name"} if section is root else fields)
