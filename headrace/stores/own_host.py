"""Keeps requests with credentials on the hosts of their store: a redirect to another host ends in an error.

obstore's HTTP client follows redirects. It drops `Authorization` on the way to another host, but not the session token
of AWS, and it has no setting for redirects. It has one for proxies: so every host but the store's own is reached over a
proxy at a port where nothing listens, before anything is sent. A proxy in the environment is left as it is.
"""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

NOWHERE = "127.0.0.1:1"
"""Address of the proxy, which messages of obstore show."""
_AMAZON = ("amazonaws.com", "amazonaws.com.cn", "api.aws")
_OF_CREDENTIALS = ("169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23")
_ADDRESSES = ("AWS_ENDPOINT_URL_STS", "AWS_METADATA_ENDPOINT", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


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
    if any(environment.get(name) or environment.get(name.upper()) for name in _PROXIES):
        return {}
    addresses = [endpoint, *(environment.get(name) for name in _ADDRESSES)]
    hosts = [host for address in addresses if address and (host := urlsplit(address).hostname)]
    own = hosts if endpoint else [*hosts, *_AMAZON]
    return {"proxy_url": f"http://{NOWHERE}", "proxy_excludes": ",".join([*own, *_OF_CREDENTIALS])}
