"""Parses the commands in a Kaldi `wav.scp` that only decode a file, to the file and its channel. Nothing is run.

Kaldi's recipes write `ID flac -c -d -s /data/a.flac |` where other tools write the path. A command is accepted only if
each of its options is known to leave the sound as it is.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

_SHELL = frozenset("|&;<>$`(){}*?\n")


class Decoded(NamedTuple):
    """Sound that a command gives: that of a file, or one channel of it.

    Attributes:
        path: the file.
        channel: 0-based channel; None for all.
        fault: why the command is not accepted; then there is no path.
    """

    path: str
    channel: int | None = None
    fault: str = ""


class _Program(NamedTuple):
    """A program: its options that take a value, those that take none, and the options that stand before the file.

    Attributes:
        flags: options without a value; of single letters, such as `-cds`, each is looked up.
        valued: option → its accepted values; empty for any.
        input_option: option whose value is the file; empty if the file is an argument.
        outputs: arguments that mean the standard output, one of which has to be there; empty for none.
    """

    flags: frozenset[str]
    valued: Mapping[str, frozenset[str]]
    input_option: str = ""
    outputs: frozenset[str] = frozenset()


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ANY = _set("")
_PROGRAMS = {
    "cat": _Program(_ANY, {}),
    "flac": _Program(_set("-c -d -s -f -F --stdout --decode --silent --totally-silent"), {}),
    "sox": _Program(
        _set("-G -D --no-dither -V0 -V1"),
        {
            "-t": _set("wav flac sph nist mp3 ogg aiff"),
            "-e": _set("signed signed-integer"),
            "-b": _set("16"),
            "--encoding": _set("signed signed-integer"),
            "--bits": _set("16"),
            "--type": _set("wav flac sph nist mp3 ogg aiff"),
        },
        outputs=_set("-"),
    ),
    "sph2pipe": _Program(_set("-p"), {"-f": _set("wav rif"), "-c": _set("1 2")}),
    "ffmpeg": _Program(
        _set("-y -nostdin -hide_banner -vn"),
        {
            "-f": _set("wav"),
            "-loglevel": _ANY,
            "-v": _ANY,
            "-threads": _ANY,
            "-acodec": _set("pcm_s16le"),
            "-c:a": _set("pcm_s16le"),
            "-codec:a": _set("pcm_s16le"),
        },
        input_option="-i",
        outputs=_set("- pipe:1 pipe:"),
    ),
}


def parsed_pipe(command: str) -> Decoded:
    """The file and channel that a command decodes.

    Args:
        command: what a line of `wav.scp` has after the id, with the `|` at its end.

    >>> parsed_pipe("flac -c -d -s /data/a.flac |")
    Decoded(path='/data/a.flac', channel=None, fault='')
    >>> parsed_pipe("sph2pipe -f wav -p -c 2 /data/a.sph |").channel
    1
    >>> parsed_pipe("sox a.wav -t wav - speed 0.9 |").fault
    "the command 'sox' has 'speed', and commands are not run: write the sound to a file, and name the file"
    """
    text = command.strip().removesuffix("|").strip()
    if odd := next((character for character in text if character in _SHELL), ""):
        return _refused(f"the command has {odd!r}")
    try:
        words = shlex.split(text)
    except ValueError as error:
        return _refused(f"the command cannot be read ({error})")
    if not words:
        return _refused("the command is empty")
    name = PurePath(words[0]).name
    if name not in _PROGRAMS:
        return _refused(f"the command is {name!r}")
    return _parsed(name, _PROGRAMS[name], words[1:])


def _parsed(name: str, program: _Program, words: Sequence[str]) -> Decoded:
    files, channel, rest = [], None, list(words)
    is_flac_decoded = name != "flac"
    while rest:
        word = rest.pop(0)
        if word == program.input_option or word in program.valued:
            value = rest.pop(0) if rest else ""
            allowed = program.valued.get(word, _ANY)
            if not value or (allowed and value not in allowed):
                return _refused(f"the command {name!r} has {f'{word} {value}'.strip()!r}")
            if word == program.input_option:
                files.append(value)
            elif name == "sph2pipe" and word == "-c":
                channel = int(value) - 1
        elif word in program.outputs or not (word.startswith("-") or program.input_option):
            files.append(word)
        elif word.startswith("-") and _are_flags(word, program.flags):
            is_flac_decoded = is_flac_decoded or word == "--decode" or (word[1] != "-" and "d" in word)
        else:
            return _refused(f"the command {name!r} has {word!r}")
    return _with_file(name, program, files, channel, is_decoded=is_flac_decoded)


def _with_file(name: str, program: _Program, words: Sequence[str], channel: int | None, *, is_decoded: bool) -> Decoded:
    """The result, from the words that are not options: one file, then the output if the program needs one."""
    wanted = 2 if program.outputs else 1
    if len(words) > wanted:
        return _refused(f"the command {name!r} has {words[wanted]!r}")
    if len(words) < wanted or words[0] in program.outputs or not is_decoded:
        return _refused(f"the command {name!r} does not decode one file to its output")
    if program.outputs and words[1] not in program.outputs:
        return _refused(f"the command {name!r} has {words[1]!r}")
    return Decoded(words[0], channel)


def _are_flags(word: str, flags: frozenset[str]) -> bool:
    """Whether a word is an option without value, or several of single letters in one: `-cds`."""
    return word in flags or (word[1:2] != "-" and len(word) > 1 and all(f"-{letter}" in flags for letter in word[1:]))


def _refused(what: str) -> Decoded:
    return Decoded("", None, f"{what}, and commands are not run: write the sound to a file, and name the file")
