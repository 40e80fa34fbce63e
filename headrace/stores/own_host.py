"""Keeps requests with credentials on the hosts of their store: a redirect to another host ends in an error.

obstore's HTTP client follows redirects. It drops `Authorization` on the way to another host, but not the session token
of AWS, and it has no setting for redirects. It has one for proxies: so every host but the store's own is reached over a
proxy at a port where nothing listens, before anything is sent. This takes the place of a proxy in the environment, so a
store that is reached over one (`HTTPS_PROXY`, not `NO_PROXY`) keeps it, and its redirects are followed.
"""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

NOWHERE = "127.0.0.1:1"
"""Address of the proxy, which messages of obstore show."""
_AMAZON = ("amazonaws.com", "amazonaws.com.cn", "api.aws")
_OF_CREDENTIALS = ("169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23")
_ADDRESSES = ("AWS_ENDPOINT_URL_STS", "AWS_METADATA_ENDPOINT", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
_AMAZON_STORE, _AMAZON_TOKENS = "https://s3.amazonaws.com", "https://sts.amazonaws.com"


def stays_on_own_host(endpoint: str | None, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Options of an S3 client by which it sends nothing to hosts other than the store's and those of its credentials.

    Args:
        endpoint: address of the store; None for Amazon's.
        environment: variables with further addresses.

    >>> stays_on_own_host("http://minio:9000", {})["proxy_excludes"].partition(",")[0]
    'minio'
    >>> stays_on_own_host(None, {"HTTPS_PROXY": "http://proxy:3128"})
    {}
    """
    givers = [_AMAZON_TOKENS] if environment.get("AWS_WEB_IDENTITY_TOKEN_FILE") else []
    if any(_is_proxied(address, environment) for address in [endpoint or _AMAZON_STORE, *givers]):
        return {}
    addresses = [endpoint, *(environment.get(name) for name in _ADDRESSES)]
    hosts = [host for address in addresses if address and (host := urlsplit(address).hostname)]
    own = hosts if endpoint else [*hosts, *_AMAZON]
    return {"proxy_url": f"http://{NOWHERE}", "proxy_excludes": ",".join([*own, *_OF_CREDENTIALS])}


def _is_proxied(address: str, environment: Mapping[str, str]) -> bool:
    """Whether the environment names a proxy for an address."""
    parts = urlsplit(address)
    named = (f"{parts.scheme}_proxy", "all_proxy")
    if not any(_variable(name, environment) for name in named):
        return False
    excluded = [entry.strip() for entry in _variable("no_proxy", environment).split(",")]
    host = f".{parts.hostname}"
    return not any(entry == "*" or (entry and host.endswith(f".{entry.lstrip('.')}")) for entry in excluded)


def _variable(name: str, environment: Mapping[str, str]) -> str:
    """The value of a variable that is spelled in small or in capital letters; empty without one."""
    return environment.get(name) or environment.get(name.upper()) or ""
