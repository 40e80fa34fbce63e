"""The base class of the sections of a data set's YAML, and the value types that several sections use.

In every section, unknown keys are errors, and so are true and false where a number or text is expected. The keys are
defined in `headrace.config.source`, `headrace.config.content` and `headrace.config.operation`.
"""

import re
from typing import Annotated, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from headrace.stores.file_urls import is_file_url, path_of_file_url
from headrace.stores.storage import SCHEMES

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OBJECT = re.compile(r"[\w.]+:\w+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWNER = re.compile(r"team:.+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}")  # what Dagster accepts
_SHELL_NAME = re.compile(r"\$(\{|[A-Za-z_])")


def checked_uri(uri: str) -> str:
    """The URI, unchanged. Raises `ValueError` for text that is neither a path nor a URL, or contains variables."""
    if _SHELL_NAME.search(uri):
        raise ValueError("environment variables are not expanded here; write the full path, or ~ for your home folder")
    if "\0" in uri:
        raise ValueError("a path or a URL contains no NUL character; leave it out")
    if uri.lower().startswith("file://~"):
        raise ValueError("~ is not allowed in a URL; write the path without file://")
    if is_file_url(uri):
        path_of_file_url(uri)  # raises what is wrong with it
    try:
        scheme = urlsplit(uri).scheme
    except ValueError as error:
        raise ValueError(f"expected a path or a URL ({error})") from error
    if "://" in uri and scheme not in SCHEMES:
        raise ValueError(
            f"unknown URL scheme {scheme!r}; expected a path, or a URL with one of the schemes {', '.join(SCHEMES)}"
        )
    return uri


def checked_name(name: str) -> str:
    """The name, unchanged. Raises `ValueError` if it cannot be part of an asset key."""
    if not _NAME.fullmatch(name):
        raise ValueError("expected a letter, then letters (a to z), digits and _")
    return name


def checked_object(name: str) -> str:
    """The name, unchanged. Raises `ValueError` if it does not have the form `module:object`."""
    if not _OBJECT.fullmatch(name):
        raise ValueError("expected module:object, such as my_checks:Metadata")
    return name


def _checked_variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(
            "expected the name of an environment variable, such as HEADRACE_ALERTS_WEBHOOK; an address is a secret, so "
            "it must be in that variable and not in this file"
        )
    return name


def _checked_owner(owner: str) -> str:
    if not _OWNER.fullmatch(owner):
        raise ValueError("expected an e-mail address, or a team, such as team:audio-data")
    return owner


Name = Annotated[str, AfterValidator(checked_name)]
Owner = Annotated[str, AfterValidator(_checked_owner)]
Uri = Annotated[str, Field(min_length=1), AfterValidator(checked_uri)]
Variable = Annotated[str, AfterValidator(_checked_variable)]


class Section(BaseModel):
    """A section of the YAML file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _rejects_booleans(cls, value: object, info: ValidationInfo) -> object:
        annotation = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and bool not in (annotation, *get_args(annotation)):
            raise ValueError("true and false are not allowed here (YAML reads yes, no, on and off as true and false)")
        return value
