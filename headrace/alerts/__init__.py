"""Sends alerts to a webhook, by e-mail, and to the log."""

__all__ = ["alerts"]
