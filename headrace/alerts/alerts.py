"""Formats an alert and sends it to a webhook, by e-mail, and to the log.

`headrace.alerts.delivery` delivers the messages. Secrets come from the environment that the caller passes in.
"""

import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from enum import StrEnum
from functools import partial

from headrace.alerts.delivery import fault_of, mail, post, smtp_address
from headrace.config.operation import AlertsConfig

_LOG = logging.getLogger("headrace.alerts")
_MOST_CHARACTERS = 3000


class AlertChannel(StrEnum):
    """A channel on which alerts are sent."""

    LOG = "log"
    WEBHOOK = "webhook"
    EMAIL = "email"


EVERYWHERE = tuple(AlertChannel)


@dataclass(frozen=True, slots=True)
class Alert:
    """A message about a data set.

    Attributes:
        dataset: name of the data set.
        title: what happened, in one line.
        text: the details.
        link: URL with more information; empty without one.
    """

    dataset: str
    title: str
    text: str
    link: str = ""


def send(
    alert: Alert, config: AlertsConfig, environment: Mapping[str, str], channels: Collection[AlertChannel] = EVERYWHERE
) -> dict[AlertChannel, str]:
    """Send an alert on every configured channel. A failure of one channel does not affect the others.

    Args:
        alert: the alert.
        config: the recipients.
        environment: webhook URL, SMTP address, user and password, under the variable names from `config`.
        channels: the channels to use; to retry, those that failed.

    Returns:
        Channel → error message without secrets, for each channel that failed. Nothing is raised.
    """
    if AlertChannel.LOG in channels:
        _LOG.warning("%s: %s: %s", alert.dataset, alert.title, _sendable(alert.text))
        for gap in gaps(config, environment):
            _LOG.warning("%s: %s", alert.dataset, gap)
    ways: dict[AlertChannel, tuple[str, Callable[[], None]]] = {}
    if url := environment.get(config.webhook):
        ways[AlertChannel.WEBHOOK] = f"webhook of {config.webhook}", lambda: post(url, webhook_body(alert))
    if config.email_to and environment.get(config.smtp):
        ways[AlertChannel.EMAIL] = f"SMTP server of {config.smtp}", partial(_mail, alert, config, environment)
    faults = {channel: (name, fault_of(way)) for channel, (name, way) in ways.items() if channel in channels}
    return {channel: f"{name}: {fault}" for channel, (name, fault) in faults.items() if fault is not None}


def gaps(config: AlertsConfig, environment: Mapping[str, str]) -> list[str]:
    """Messages about configured recipients that get nothing, because an environment variable has no value."""
    found = []
    if config.email_to:
        usual = AlertsConfig()
        named = [(config.smtp, ""), (config.smtp_user, usual.smtp_user), (config.smtp_password, usual.smtp_password)]
        unset = [name for name, default in named if name != default and not environment.get(name)]
        found += [
            f"no e-mail is sent to {', '.join(config.email_to)}: the variable {name} has no value" for name in unset
        ]
    if config.webhook != AlertsConfig().webhook and not environment.get(config.webhook):
        found.append(f"nothing is sent to the webhook: the variable {config.webhook} has no value")
    return found


def webhook_body(alert: Alert) -> bytes:
    """JSON for Slack's incoming webhooks, and for other webhooks that read `text`."""
    link = f"\n<{alert.link}|Open the run>" if alert.link else ""
    detail = f"{_cut(alert.text)}{link}"
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": _line(alert)[:150]}},
        {"type": "section", "text": {"type": "mrkdwn", "text": detail or " "}},
    ]
    return json.dumps({"text": f"{_line(alert)}\n{detail}", "blocks": blocks}).encode()


def email_message(alert: Alert, config: AlertsConfig) -> EmailMessage:
    """The alert as a plain-text e-mail."""
    message = EmailMessage()
    message["Subject"] = f"[headrace] {_line(alert)}"
    message["From"] = config.email_from
    message["To"] = ", ".join(config.email_to)
    message.set_content(f"{_cut(alert.text)}\n\n{alert.link}\n")
    return message


def _mail(alert: Alert, config: AlertsConfig, environment: Mapping[str, str]) -> None:
    """Send an alert by e-mail. Raises exceptions of any class."""
    user, password = (environment.get(name, "").strip("\r\n") for name in (config.smtp_user, config.smtp_password))
    address = smtp_address(environment[config.smtp], user, password, is_insecure=config.insecure)
    for recipient in mail(address, email_message(alert, config)):
        _LOG.warning("%s: the SMTP server of %s rejected the recipient %s", alert.dataset, config.smtp, recipient)


def _sendable(text: str) -> str:
    """The text with unencodable characters replaced: file names may contain bytes that are not UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _cut(text: str) -> str:
    sendable = _sendable(text)
    return sendable if len(sendable) <= _MOST_CHARACTERS else sendable[:_MOST_CHARACTERS] + " …"


def _line(alert: Alert) -> str:
    """Data set and title in one line."""
    return " ".join(_cut(f"{alert.dataset}: {alert.title}").split())
