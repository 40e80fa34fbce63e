"""Makes names of data sets absolute, and one name of a list of tars. No store and no disk is asked."""

import os
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlsplit

from headrace.arguments import each, path
from headrace.errors import ConfigError
from headrace.format.tars.tar_names import is_tar
from headrace.signed_urls import check_no_password, is_signed, unsigned

_KIND = r"(?:datasets|spaces|buckets)/"
_STORE = re.compile(rf"(?!hf://)[^:/]+://.*[^/]$|hf://(?:{_KIND})?(?!{_KIND})[^/]+/[^/]+")  # or something in one


def expanded(name: str) -> str:
    """The name with `~` replaced by the home folder, as a shell does; URLs stay as they are.

    Raises:
        ConfigError: it is a URL with a password.
    """
    check_no_password(name)
    return name if "://" in name else os.path.expanduser(name)  # noqa: PTH111 - a Path drops a slash at the end


def absolute(name: str) -> str:
    """The name with `~` replaced, starting at the root folder; URLs stay as they are.

    An absolute name stays valid when the process changes its working folder.
    """
    name = expanded(name)
    has_scheme = len(urlsplit(name).scheme) > 1
    return name if has_scheme or os.path.isabs(name) else os.path.join(os.getcwd(), name)  # noqa: PTH109, PTH117, PTH118 - as above


def name_of_tars(name: str, value: object) -> str:
    r"""One name for a list of tars: the folder that holds them all, and their paths below it, in lines.

    A single path or URL stays as it is. It is a check of an argument (`headrace.arguments`).

    >>> name_of_tars("remote", ["s3://bucket/a/1.tar", "s3://bucket/b/2.tar"])
    's3://bucket\na/1.tar\nb/2.tar'

    Raises:
        ConfigError: the list is empty, an item is no tar or a signed URL, or the tars are in several stores.
    """
    if isinstance(value, str | os.PathLike):
        return path(name, value)
    given = list(map(absolute, each(name, value, path, "a path or URL, or a list of paths or URLs of tars")))
    names = once(name, given)
    if not names:
        raise ConfigError(f"{name} is empty: name at least one tar")
    for tar in names:
        if is_signed(tar) or not is_tar(tar) or "\n" in tar:
            raise ConfigError(
                f"{name}: {unsigned(tar)!r} in a list: expected the path or URL of a tar; pass folders, patterns and "
                "signed URLs as streams=[Stream(remote=…), …]"
            )
    root, below = common_folder(names)
    if root is None:
        raise ConfigError(f"{name}: lists tars of several stores: name each by streams=[Stream(remote=…), …]")
    return names[0] if len(names) == 1 else "\n".join([root, *below])


def once(listed: str, names: Sequence[str]) -> list[str]:
    """The names without repetitions, in their order. Warns of a repetition: a sample has one key in a data set.

    Args:
        listed: what has the names, for the warning.
        names: the names.
    """
    found = list(dict.fromkeys(names))
    if len(found) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        warnings.warn(
            f"{listed}: names {unsigned(twice)} twice, and it is read once: leave it out, or name it in a stream of "
            "its own with repeat=2",
            stacklevel=2,
        )
    return found


def below(folder: str | os.PathLike[str] | None, name: str) -> str:
    """A local tar as its path from a folder, in one spelling; URLs, and names without a folder, as they are.

    >>> below("/data", "/data/a/../1.tar")
    '1.tar'
    """
    return name if folder is None or "://" in name else os.path.relpath(os.path.join(folder, name), folder)  # noqa: PTH118 - texts


def common_folder(names: Sequence[str]) -> tuple[str | None, list[str]]:
    """The folder that holds all these absolute paths or URLs, and their paths below it; None for several stores."""
    if any("://" in name for name in names):
        root = os.path.commonprefix([f"{name.rpartition('/')[0]}/" for name in names]).rpartition("/")[0]  # noqa: RUF071 - of URLs; cut at a slash
        return (root, [name[len(root) + 1 :] for name in names]) if _STORE.match(root) else (None, [])
    names = list(map(os.path.normpath, names))
    root = os.path.commonpath([os.path.dirname(name) for name in names])  # noqa: PTH120 - texts, as the user wrote them
    return root, [os.path.relpath(name, root) for name in names]


def shown(name: str) -> str:
    """A name for messages: of a list of tars the first, and how many more there are."""
    root, *tars = name.split("\n")
    return f"{root}/{tars[0]} and {len(tars) - 1} more tars" if tars else name
