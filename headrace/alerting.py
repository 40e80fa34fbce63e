"""Telling people: one message to a webhook, by e-mail, and to the log.

Owns the forms of a message and how it is delivered. It knows nothing of what went wrong; secrets come from the
environment that the caller passes in.
"""

import json
import logging
import smtplib
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from headrace.config import AlertsConfig
from headrace.errors import ConfigError

_LOG = logging.getLogger("headrace.alerts")
_TIMEOUT_SECONDS = 10.0
_MOST_CHARACTERS = 3000
_PORTS = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing that somebody should know.

    Attributes:
        dataset: name of the data set.
        title: what happened, one line.
        text: the particulars.
        link: where to look; empty for nowhere.
    """

    dataset: str
    title: str
    text: str
    link: str = ""


def send(alert: Alert, config: AlertsConfig, environment: Mapping[str, str]) -> list[str]:
    """Deliver an alert everywhere that is set up; a place that fails does not keep it from the others.

    Args:
        alert: what to say.
        config: where to.
        environment: holds webhook URL and SMTP address under the names that `config` gives.

    Returns:
        What could not be delivered, in words without secrets; empty when all was.
    """
    _LOG.warning("%s: %s: %s", alert.dataset, alert.title, alert.text)
    for gap in gaps(config, environment):
        _LOG.warning("%s: %s", alert.dataset, gap)
    faults = []
    if url := environment.get(config.webhook):
        try:
            _post(url, webhook_body(alert))
        except (OSError, ValueError) as error:
            faults.append(f"webhook of {config.webhook}: {type(error).__name__}: {_without(str(error), url)}")
    if config.email_to and (address := environment.get(config.smtp)):
        try:
            _mail(address, email_message(alert, config))
        except (OSError, smtplib.SMTPException, ConfigError) as error:
            faults.append(f"SMTP server of {config.smtp}: {type(error).__name__}: {_without(str(error), address)}")
    return faults


def gaps(config: AlertsConfig, environment: Mapping[str, str]) -> list[str]:
    """Who hears nothing though the settings name them: the variable that says how to reach them has no value."""
    found = []
    if config.email_to and not environment.get(config.smtp):
        found.append(f"no e-mail goes to {', '.join(config.email_to)}: the variable {config.smtp} has no value")
    if config.webhook != AlertsConfig().webhook and not environment.get(config.webhook):
        found.append(f"nothing goes to the webhook: the variable {config.webhook} has no value")
    return found


def webhook_body(alert: Alert) -> bytes:
    """JSON as Slack's incoming webhooks take it; others that read `text` do too."""
    link = f"\n<{alert.link}|Open the run>" if alert.link else ""
    detail = f"{_cut(alert.text)}{link}"
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": f"{alert.dataset}: {alert.title}"[:150]}},
        {"type": "section", "text": {"type": "mrkdwn", "text": detail or " "}},
    ]
    return json.dumps({"text": f"{alert.dataset}: {alert.title}\n{detail}", "blocks": blocks}).encode()


def email_message(alert: Alert, config: AlertsConfig) -> EmailMessage:
    """A plain e-mail."""
    message = EmailMessage()
    message["Subject"] = f"[headrace] {alert.dataset}: {alert.title}".replace("\n", " ")
    message["From"] = config.email_from
    message["To"] = ", ".join(config.email_to)
    message.set_content(f"{_cut(alert.text)}\n\n{alert.link}\n")
    return message


def _post(url: str, body: bytes) -> None:
    if urlsplit(url).scheme not in {"http", "https"}:
        raise ValueError("not an http or https URL")
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - checked above
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310
        response.read()


def _mail(address: str, message: EmailMessage) -> None:
    parts = urlsplit(address)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ConfigError("expected smtp://user:password@host:port or smtps://…")
    port = parts.port or _PORTS[parts.scheme]
    context = ssl.create_default_context()
    if parts.scheme == "smtps":
        client: smtplib.SMTP = smtplib.SMTP_SSL(parts.hostname, port, timeout=_TIMEOUT_SECONDS, context=context)
    else:
        client = smtplib.SMTP(parts.hostname, port, timeout=_TIMEOUT_SECONDS)
    with client:
        client.ehlo()
        if parts.scheme == "smtp" and client.has_extn("starttls"):
            client.starttls(context=context)
        if parts.username:
            client.login(unquote(parts.username), unquote(parts.password or ""))
        client.send_message(message)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + " …"


def _without(text: str, secret: str) -> str:
    return text.replace(secret, "…")
