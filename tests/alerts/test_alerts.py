"""Alerts reach a real HTTP receiver and a real SMTP server, and messages contain no secrets."""

import json
import socketserver
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.alerts.alerts import Alert, AlertChannel, gaps, send, webhook_body
from headrace.config.operation import AlertsConfig

ALERT = Alert(
    "tones", "failed: audio_shards [train-0000]", "check index_matches_tar failed", "http://127.0.0.1:3000/runs/1"
)


@dataclass
class Received:
    bodies: list[dict] = field(default_factory=list)
    mails: list[str] = field(default_factory=list)
    envelopes: list[str] = field(default_factory=list)
    status: int = 200


@pytest.fixture
def received():
    return Received()


@pytest.fixture
def webhook(received):
    """The URL of a running receiver."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.bodies.append(json.loads(body))
            self.send_response(received.status)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/services/hidden-token"
        server.shutdown()


@pytest.fixture
def smtp(received):
    """The address of an SMTP server that implements as much of RFC 5321 as a client needs."""

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self):
            self.say("220 test")
            while line := self.rfile.readline().decode().strip():
                verb = line.split(" ")[0].upper()
                if verb == "DATA":
                    self.say("354 go on")
                    lines = []
                    while (text := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                        lines.append(text)
                    received.mails.append("\n".join(lines))
                    self.say("250 taken")
                elif verb == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    if verb in {"MAIL", "RCPT"}:
                        received.envelopes.append(line)
                    self.say("250 ok")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"smtp://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_webhook_gets_json_in_the_form_that_slack_accepts(received, webhook):
    assert send(ALERT, AlertsConfig(), {"HEADRACE_ALERTS_WEBHOOK": webhook}) == {}
    (body,) = received.bodies
    assert body["text"].startswith("tones: failed: audio_shards [train-0000]\n")
    assert [block["type"] for block in body["blocks"]] == ["header", "section"]
    assert "/runs/1" in body["blocks"][1]["text"]["text"]


def test_an_email_reaches_its_recipients(received, smtp):
    config = AlertsConfig(email_from="headrace@example.org", email_to=("a@example.org", "b@example.org"))
    assert send(ALERT, config, {"HEADRACE_ALERTS_SMTP": smtp}) == {}
    (mail,) = received.mails
    assert "Subject: [headrace] tones: failed: audio_shards [train-0000]" in mail
    assert "check index_matches_tar failed" in mail
    assert sum(line.startswith("rcpt") for line in map(str.lower, received.envelopes)) == 2


def test_without_recipients_alerts_are_only_logged(received, caplog):
    assert send(ALERT, AlertsConfig(email_to=("a@example.org",)), {}) == {}
    assert "audio_shards [train-0000]" in caplog.text
    assert (received.bodies, received.mails) == ([], [])


def test_recipients_that_cannot_be_reached_are_logged(caplog):
    config = AlertsConfig(email_to=("a@example.org",), webhook="TEAM_WEBHOOK")
    first, second = gaps(config, {"HEADRACE_ALERTS_SMTP": ""})
    assert first == "no e-mail is sent to a@example.org: the variable HEADRACE_ALERTS_SMTP has no value"
    assert second == "nothing is sent to the webhook: the variable TEAM_WEBHOOK has no value"
    assert send(ALERT, config, {}) == {}
    assert first in caplog.text
    assert second in caplog.text


def test_without_recipients_or_with_all_variables_set_nothing_is_reported_missing():
    assert gaps(AlertsConfig(), {}) == []
    config = AlertsConfig(email_to=("a@example.org",), webhook="TEAM_WEBHOOK")
    assert gaps(config, {"HEADRACE_ALERTS_SMTP": "smtp://x", "TEAM_WEBHOOK": "https://x"}) == []


def test_a_failing_receiver_is_reported_without_the_secret_and_the_others_get_the_alert(received, webhook, smtp):
    received.status = 500
    config = AlertsConfig(email_to=("a@example.org",))
    faults = send(ALERT, config, {"HEADRACE_ALERTS_WEBHOOK": webhook, "HEADRACE_ALERTS_SMTP": smtp})
    assert faults == {AlertChannel.WEBHOOK: "webhook of HEADRACE_ALERTS_WEBHOOK: the server answered with status 500"}
    assert len(received.mails) == 1


@pytest.mark.parametrize("url", ["file:///etc/hosts", "not a url", "http://127.0.0.1:9/hidden-token"])
def test_an_invalid_address_is_an_error_and_not_a_crash(url):
    (fault,) = send(ALERT, AlertsConfig(), {"HEADRACE_ALERTS_WEBHOOK": url}).values()
    assert url not in fault


def test_long_texts_are_truncated():
    assert len(webhook_body(Alert("tones", "failed", "x" * 100_000))) < 10_000


def test_only_failed_channels_are_tried_again(received, webhook, smtp):
    environment = {"HEADRACE_ALERTS_WEBHOOK": webhook, "HEADRACE_ALERTS_SMTP": smtp}
    assert send(ALERT, AlertsConfig(email_to=("a@example.org",)), environment, [AlertChannel.EMAIL]) == {}
    assert (len(received.bodies), len(received.mails)) == (0, 1)


def test_a_separate_variable_for_user_or_password_needs_a_value():
    config = AlertsConfig(email_to=("a@example.org",), smtp_user="TEAM_USER", smtp_password="TEAM_PASSWORD")
    found = gaps(config, {"HEADRACE_ALERTS_SMTP": "smtp://x", "TEAM_USER": "me"})
    assert found == ["no e-mail is sent to a@example.org: the variable TEAM_PASSWORD has no value"]
