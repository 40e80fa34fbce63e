"""Misbehaving receivers of alerts on loopback: a web server and an SMTP server."""

import base64
import contextlib
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Heard:
    """The bytes that a receiver got, and its answer."""

    answer: str = ""
    received: bytes = b""
    mails: list[str] = field(default_factory=list)

    @property
    def plain(self) -> str:
        """All received text, with base64 decoded."""
        words = self.received.decode("latin-1").split()
        decoded = []
        for word in words:
            with contextlib.suppress(ValueError):
                decoded.append(base64.b64decode(word, validate=True).decode("latin-1"))
        return " ".join([*words, *decoded])


class _Handler(socketserver.StreamRequestHandler):
    timeout = 60
    heard: Heard
    released: threading.Event

    def say(self, line: str) -> None:
        with contextlib.suppress(OSError):
            self.wfile.write(f"{line}\r\n".encode("latin-1"))

    def hear(self) -> str:
        with contextlib.suppress(OSError):
            line = self.rfile.readline()
            self.heard.received += line
            return line.decode("latin-1").rstrip("\r\n")
        return ""


class _Web(_Handler):
    """Answers with the status in `answer`, and repeats the path everywhere a server can. Speaks no TLS."""

    def handle(self) -> None:
        if self.rfile.peek(1).startswith(b"\x16"):  # a TLS handshake
            self.heard.received += self.rfile.peek(1)
            self.say("HTTP/1.0 400 this is not TLS\r\n\r\n")
            return
        path = self.hear().partition(" ")[2]
        while self.hear():
            pass
        if self.heard.answer == "hang":
            self.released.wait(60)
        elif self.heard.answer == "garbage":
            self.say(f"you asked for {path}")
        elif self.heard.answer != "close":
            self.say(f"HTTP/1.0 {self.heard.answer} {path}")
            self.say(f"Location: http://127.0.0.1:9{path.split(' ')[0]}")
            self.say(f"X-Echo: {path}\r\n\r\n{path}")


class _Smtp(_Handler):
    """Speaks RFC 5321 until the verb that `answer` starts with. Answers it with the rest of `answer` and all input."""

    extensions = ("AUTH PLAIN LOGIN",)

    def handle(self) -> None:
        verb, _, answer = self.heard.answer.partition(" ")
        if verb == "hang":
            self.released.wait(60)
            return
        self.say(f"{answer} {self.heard.plain}" if verb == "banner" else "220 test")
        while line := self.hear():
            said = line.split(" ")[0].upper()
            if said == verb:
                if answer == "close":
                    return
                self.say(f"{answer} {self.heard.plain}")
            elif said == "DATA":
                self.say("354 go on")
                self.heard.mails.append("\n".join(iter(self.hear, ".")))
                self.say("250 taken")
            elif said == "QUIT":
                self.say("221 bye")
                return
            else:
                self.agree(said)

    def agree(self, said: str) -> None:
        if said == "EHLO":
            for extension in ("test", *self.extensions):
                self.say(f"250-{extension}")
        self.say("235 welcome" if said == "AUTH" else "250 ok")


class _SmtpWithTls(_Smtp):
    """Offers STARTTLS and then speaks no TLS, unless `answer` rejects the verb."""

    extensions = ("STARTTLS", "AUTH PLAIN LOGIN")


@contextlib.contextmanager
def web_server(heard: Heard) -> Iterator[int]:
    """Run a web server. Gives its port."""
    with _serving(_Web, heard) as port:
        yield port


@contextlib.contextmanager
def smtp_server(heard: Heard, *, offers_tls: bool = False) -> Iterator[int]:
    """Run an SMTP server. Gives its port."""
    with _serving(_SmtpWithTls if offers_tls else _Smtp, heard) as port:
        yield port


@contextlib.contextmanager
def _serving(kind: type[_Handler], heard: Heard) -> Iterator[int]:
    released = threading.Event()
    handler = type("Handler", (kind,), {"heard": heard, "released": released})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            released.set()
            server.shutdown()
            thread.join()
