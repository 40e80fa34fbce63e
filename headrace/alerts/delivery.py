"""Delivers a message to a webhook or an SMTP server, and describes failures without secrets.

The text of a library's exception may contain an address, a password or text from the server. It is therefore never
passed on: a failure is described only by the exception's class and by numbers such as a status code.
"""

import contextlib
import os
import re
import smtplib
import socket
import ssl
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit

from headrace.errors import ConfigError

_TIMEOUT_SECONDS = 10.0
_PORTS = {"smtp": 587, "smtps": 465}
_URL_CHARACTERS = "%/:=&?~#+!$,;'@()*[]"  # characters with a meaning in a URL; others are percent-encoded
_PLACE = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?/?")


@dataclass(frozen=True, slots=True)
class SmtpAddress:
    """Address and login of an SMTP server.

    Attributes:
        is_tls: whether the connection uses TLS from the start; otherwise STARTTLS is used if the server offers it.
        host: name or address of the server.
        port: port of the server.
        user: user name; empty to send without login.
        password: password of the user.
        is_insecure: whether the password may be sent without TLS.
    """

    is_tls: bool
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    is_insecure: bool = False


def smtp_address(url: str, user: str = "", password: str = "", *, is_insecure: bool = False) -> SmtpAddress:
    """Parse `smtp://user:password@host:port` or `smtps://…`.

    The password is between the first `:` and the last `@`, so it may contain any character. `%` and two hex digits are
    decoded.

    Args:
        url: the URL.
        user: the user name, not percent-encoded; empty to use the one in the URL.
        password: the password, not percent-encoded; empty to use the one in the URL.
        is_insecure: see `SmtpAddress`.

    Raises:
        ConfigError: the URL is invalid. The message does not contain it.
    """
    scheme, _, rest = url.strip().partition("://")
    login, _, place = rest.rpartition("@")
    match = _PLACE.fullmatch(place)
    port = int((match and match["port"]) or _PORTS.get(scheme.lower(), 0))
    if match is None or scheme.lower() not in _PORTS or not 0 < port < 1 << 16:
        raise ConfigError("its value does not have the form smtp://user:password@host:port or smtps://…")
    name, _, secret = login.partition(":")
    return SmtpAddress(
        is_tls=scheme.lower() == "smtps",
        host=match["host"].strip("[]"),
        port=port,
        user=user or unquote(name),
        password=password or unquote(secret),
        is_insecure=is_insecure,
    )


def fault_of(deliver: Callable[[], None]) -> str | None:
    """Call `deliver`. Returns None, or an error message without secrets if it raised an exception."""
    try:
        deliver()
    except Exception as error:  # noqa: BLE001 - libraries may raise anything; one failure must not stop the other channels
        return _described(error)
    return None


def post(url: str, body: bytes) -> None:
    """Post JSON to a webhook. Characters that are not allowed in a URL, such as spaces, are percent-encoded.

    Raises:
        Exception: of any class, see `fault_of`.
    """
    text = quote(url.strip(), safe=_URL_CHARACTERS)
    if urlsplit(text).scheme.lower() not in {"http", "https"}:
        raise ConfigError("its value is not an http or https URL")
    request = urllib.request.Request(text, body, {"Content-Type": "application/json"})  # noqa: S310 - checked above
    with _opener().open(request, timeout=_TIMEOUT_SECONDS):
        pass


def mail(address: SmtpAddress, message: EmailMessage) -> list[str]:
    """Send an e-mail. The password is sent only over TLS, unless the address allows otherwise.

    Returns:
        Recipients that the server rejected, if it accepted at least one.

    Raises:
        Exception: of any class, see `fault_of`.
    """
    context = ssl.create_default_context()
    client: smtplib.SMTP = (
        smtplib.SMTP_SSL(address.host, address.port, timeout=_TIMEOUT_SECONDS, context=context)
        if address.is_tls
        else smtplib.SMTP(address.host, address.port, timeout=_TIMEOUT_SECONDS)
    )
    try:
        _log_in(client, address, context)
        return list(client.send_message(message))
    finally:
        with contextlib.suppress(OSError):  # ignored: the message was accepted, or another exception is being raised
            client.quit()
        client.close()


def _log_in(client: smtplib.SMTP, address: SmtpAddress, context: ssl.SSLContext) -> None:
    client.ehlo()
    is_tls = address.is_tls
    if not is_tls and client.has_extn("starttls"):
        client.starttls(context=context)
        is_tls = True
    if not address.user:
        return
    if not is_tls and not address.is_insecure:
        raise ConfigError(
            "the server does not offer STARTTLS, so the password was not sent; use smtps://, or set `insecure: true` "
            "under `alerts`"
        )
    client.login(address.user, address.password)


def _opener() -> urllib.request.OpenerDirector:
    """An HTTP client that does not follow redirects.

    A redirected POST would become a GET, which a server may answer with success without delivering the message.
    """
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _status(error: HTTPError) -> str:
    is_redirect = error.code // 100 == 3
    return f"the server answered with status {error.code}{', a redirect; use the final URL' if is_redirect else ''}"


_DESCRIPTIONS: tuple[tuple[type[BaseException], Callable[[Any], str]], ...] = (
    (ConfigError, str),  # messages of this module
    (HTTPError, _status),
    (URLError, lambda error: _described(error.reason)),
    (TimeoutError, lambda _: f"no answer within {_TIMEOUT_SECONDS:.0f} s"),
    (ssl.SSLCertVerificationError, lambda _: "the server's TLS certificate is invalid"),
    (ssl.SSLError, lambda _: "TLS could not be set up"),
    (socket.gaierror, lambda _: "the host name cannot be resolved"),
    (smtplib.SMTPAuthenticationError, lambda error: f"the server rejected the login, code {error.smtp_code}"),
    (smtplib.SMTPResponseException, lambda error: f"the server answered with code {error.smtp_code}"),
    (smtplib.SMTPNotSupportedError, lambda _: "the server offers no supported login method"),
    (smtplib.SMTPServerDisconnected, lambda _: "the server closed the connection"),
    (smtplib.SMTPRecipientsRefused, lambda _: "the server rejected all recipients"),
    (UnicodeError, lambda _: "the address, user name or password contains characters that cannot be sent"),
)
"""Exception class → description, from the class and numbers, never from the text. The first match is used."""


def _described(error: object) -> str:
    """Describe a failure without secrets."""
    for kind, describe in _DESCRIPTIONS:
        if isinstance(error, kind):
            return describe(error)
    if isinstance(error, OSError) and isinstance(error.errno, int):
        return f"{os.strerror(error.errno)} (errno {error.errno})"
    return f"{type(error).__name__}; check that the variable has a valid address"
