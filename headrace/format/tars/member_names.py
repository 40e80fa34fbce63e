"""Splits the names of a tar's members into the key of a sample and the name of a field.

It has the rules for where a key ends and for which fields are audio, latents or JSON, and it rejects samples whose
files look like files of several samples.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from headrace.audio_names import AUDIO_EXTENSIONS
from headrace.errors import FormatError

AUDIO_FIELDS = AUDIO_EXTENSIONS
"""Extensions of fields that hold audio; the first one in this order that a sample has is its audio."""
LATENT_FIELD = "pth"
JSON_FIELD = "json"
KEY_AT_NOTE = "key_at"
"""The note of an index with the rule by which keys end; without this note it is `KeyAt.FIRST_DOT`."""

_META_MEMBER = re.compile(r"(^|/)__[^/]*__($|/)")  # files that webdataset keeps for itself
_SHOWN_MEMBERS = 5
WAY_OUT = 'pass key_at="last_dot" (on the command line --key-at last_dot)'


class KeyAt(StrEnum):
    """Rule for the end of a key in the last component of a member's name; the field is what follows that dot."""

    FIRST_DOT = "first_dot"
    """WebDataset's rule: `x.01.flac` is the field `01.flac` of sample `x`."""
    LAST_DOT = "last_dot"
    """`x.01.flac` is the field `flac` of sample `x.01`."""


_KEY_AND_FIELD = {
    KeyAt.FIRST_DOT: re.compile(r"((?:.*/|)[^./]+)[.]([^/]*)", re.DOTALL),
    KeyAt.LAST_DOT: re.compile(r"((?:.*/|)[^./][^/]*)[.]([^./]*)", re.DOTALL),
}


def split_name(member: str, key_at: KeyAt = KeyAt.FIRST_DOT) -> tuple[str, str] | None:
    """Key and field (in lower case) of a member; None for hidden files, files without extension, and `__meta__` files.

    >>> split_name("a.b/x.01.FLAC"), split_name("a.b/x.01.FLAC", KeyAt.LAST_DOT)
    (('a.b/x', '01.flac'), ('a.b/x.01', 'flac'))
    """
    match = _KEY_AND_FIELD[key_at].fullmatch(member)
    if match is None or _META_MEMBER.search(member):
        return None
    return match[1], match[2].lower()


def audio_field(fields: Collection[str]) -> str | None:
    """The field of a sample that is its audio (`flac`, also `mic.flac`); None if no field is audio."""
    names = sorted(fields, key=lambda name: (name.count("."), name))
    for extension in AUDIO_FIELDS:
        for name in names:
            if name.rpartition(".")[2] == extension:
                return name
    return None


def members_of(audio_field: str, fields: Collection[str]) -> list[str]:
    """The members among `fields` that may hold an audio field; the first one that a sample has holds it.

    >>> members_of("mix", ["json", "mix.mp3", "mix.flac", "flac"])
    ['mix.flac', 'mix.mp3']
    """
    return [member for kind in AUDIO_FIELDS if (member := f"{audio_field}.{kind}") in fields]


@dataclass(frozen=True, slots=True)
class Naming:
    """Rules for reading the names of a shard's members.

    Attributes:
        key_at: where keys end.
        declared: fields that the writer of the shard declares: a dot in one of these is part of the field's name.
        audio_fields: names of the audio fields, such as `vocals` for `x.vocals.flac`; empty for the one field `audio`.
            Their members are declared, too.
    """

    key_at: KeyAt = KeyAt.FIRST_DOT
    declared: frozenset[str] = frozenset()
    audio_fields: tuple[str, ...] = ()

    @property
    def all_declared(self) -> frozenset[str]:
        """`declared`, and every member that may hold an audio field."""
        return self.declared | {f"{name}.{kind}" for name in self.audio_fields for kind in AUDIO_FIELDS}


def check_fields(shard: str, key: str, fields: Collection[str], declared: Collection[str] = ()) -> None:
    """Reject a sample whose files look like files of several samples, or of another one, whose keys hold dots.

    Such a sample has several files that could be its main one (audio, or else latents, or else any), and all their
    field names hold a dot, or it has `.json` files and all their field names hold a dot. Readers would use one of these
    files, or none.

    Args:
        shard: name of the tar, for messages.
        key: the sample's key.
        fields: names of its fields.
        declared: see `Naming`.

    Raises:
        FormatError: it looks so; the message has the files and what to do.
    """
    dotted = [name for name in fields if "." in name and name not in declared]
    if not dotted:
        return
    main, json = _main_fields(fields), _of_kind(fields, [JSON_FIELD])
    if (len(main) > 1 and set(main) <= set(dotted)) or (json and set(json) <= set(dotted)):
        raise FormatError(
            f"{shard}: {_listed(key, dotted)} are files of one sample, {key!r}, since a key ends at the first dot of a "
            f"file's name; but they look like samples whose keys hold dots. If they are, {WAY_OUT}; if they are audio "
            "fields of one sample, name these once: headrace index --audio-fields; if neither, write the shard again "
            f"with one plain file of each kind, such as {key}.flac and {key}.json"
        )


def _main_fields(fields: Collection[str]) -> list[str]:
    """The fields that may be the audio of a sample, or else its latents, or else all fields."""
    return _of_kind(fields, AUDIO_FIELDS) or _of_kind(fields, [LATENT_FIELD]) or list(fields)


def _of_kind(fields: Collection[str], extensions: Collection[str]) -> list[str]:
    return [name for name in fields if name.rpartition(".")[2] in extensions]


def _listed(key: str, fields: list[str]) -> str:
    shown = ", ".join(f"{key}.{name}" for name in fields[:_SHOWN_MEMBERS])
    num_more = len(fields) - _SHOWN_MEMBERS
    return f"{shown} and {num_more} more" if num_more > 0 else shown
