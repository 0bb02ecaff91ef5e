"""The proxies of the environment for the clients of HTTP in a job's JVM, which find none, or others, by
themselves.

Java's own client (of Kafka's login) and Iceberg's (of a REST catalog) read no variables; that of AWS's SDK
(S3FileIO, s3a, Glue, STS) takes HTTP_PROXY for every address, and reads NO_PROXY in another way than Python's
clients do. So the JVM is told what those go by. Brokers and databases are never reached through a proxy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies

from sluice.clients.proxies import ProxyUnusable, of_aws, proxy_of, unusable
from sluice.clients.s3.login.java import is_chain_alone
from sluice.config.platform_sections import glue
from sluice.config.platform_sections.catalog import REST
from sluice.config.platform_sections.glue import GLUE
from sluice.config.platform_sections.kafka import AWS_MSK_IAM, OAUTHBEARER
from sluice.config.reading.urls import host_of

if TYPE_CHECKING:
    from sluice.config.platform import Platform

# Java's own, which what is set here would replace.
_LOOPBACK = ("localhost", "127.*", "[::1]")
# Which client asks: each has its own way to a proxy.
_JAVA, _AWS, _ICEBERG = "java", "aws", "iceberg"


@dataclass(frozen=True)
class JvmProxies:
    """What a JVM is told. None of it if the environment names no proxy."""

    system: Mapping[str, str] = field(default_factory=dict)
    """System properties without secrets, which executors have, too."""
    login: Mapping[str, str] = field(default_factory=dict, repr=False)
    """System properties with the login of AWS's clients to their proxy."""
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Properties of a REST catalog, by Iceberg's names, with its login."""

    @property
    def executors(self) -> dict[str, str]:
        """Spark's configuration, before the JVM's start."""
        given = " ".join(f"-D{name}={value}" for name, value in self.system.items())
        return {"spark.executor.defaultJavaOptions": given} if given else {}

    def check_executors(self) -> None:
        """Raises ProxyUnusable if JVMs on other machines would need a login, which anyone there could see."""
        if self.login:
            raise ProxyUnusable(
                "a proxy of the environment has a login, which the executors' JVMs on other machines cannot "
                "be given in secret. Fix: name one without a login, or add the host of S3 to NO_PROXY"
            )


def jvm_proxies(platform: Platform) -> JvmProxies:
    """Raises ProxyUnusable for what a JVM cannot go through, or not by the address alone."""
    if not {"http", "https", "all"} & getproxies().keys():
        return JvmProxies()
    ends = [*_ends(platform)]
    for client, url in ends:
        if proxy := proxy_of(url):
            _check(client, url, proxy)
    _check_catalog(ends)
    login = dict[str, str]()
    for client, url in ends:
        if client == _AWS and (parts := urlsplit(proxy_of(url))).username:
            login = {"http.proxyUser": unquote(parts.username or "")}
            login["http.proxyPassword"] = unquote(parts.password or "")
    return JvmProxies(_system(ends), login, _of_catalog(ends))


def _system(ends: Iterable[tuple[str, str]]) -> dict[str, str]:
    by_properties = [(client, url, proxy_of(url)) for client, url in ends if client != _ICEBERG]
    direct = dict.fromkeys(urlsplit(url).hostname or "" for _, url, proxy in by_properties if not proxy)
    # Those of buckets are below that of S3.
    hosts = [*_LOOPBACK, *(name for host in direct if host != "localhost" for name in (host, f"*.{host}"))]
    # AWS's clients leave the variables alone if there is any of these.
    system = {"http.nonProxyHosts": "|".join(hosts)}
    for client, url, proxy in by_properties:
        if not proxy:
            continue
        if host := _covering(url, direct):
            raise unusable(url, proxy, f"a JVM goes by hosts, and asks {host} of another address directly")
        # AWS's clients read those of http for every address.
        scheme = "http" if client == _AWS else urlsplit(url).scheme
        place, port = _place(proxy)
        told = {f"{scheme}.proxyHost": place, f"{scheme}.proxyPort": port}
        if any(system.get(name, value) != value for name, value in told.items()):
            raise unusable(url, proxy, "a JVM takes one proxy, and another end is asked through another one")
        system |= told
    return system


def _of_catalog(ends: Iterable[tuple[str, str]]) -> dict[str, str]:
    proxy = next((proxy_of(url) for client, url in ends if client == _ICEBERG), "")
    if not proxy:
        return {}
    parts, (host, port) = urlsplit(proxy), _place(proxy)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    told = {"hostname": host, "port": port, "username": user, "password": password}
    return {f"rest.client.proxy.{name}": text for name, text in told.items() if text}


def _place(proxy: str) -> tuple[str, str]:
    parts = urlsplit(proxy)
    return parts.hostname or "", str(parts.port or 80)


def _ends(platform: Platform) -> Iterator[tuple[str, str]]:
    """What a job's JVM may ask by HTTP: the client, and the address."""
    kafka, s3, catalog = platform.kafka, platform.s3, platform.lake.catalog
    if kafka.sasl_mechanism == OAUTHBEARER and not kafka.token_file:
        yield _JAVA, kafka.sasl_oauthbearer_token_endpoint_url
    if kafka.sasl_mechanism == AWS_MSK_IAM and kafka.aws_role_arn:
        yield _AWS, of_aws("sts", kafka.aws_region)
    yield _AWS, s3.endpoint or of_aws("s3", s3.region)
    if is_chain_alone(s3) and os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        # By executors, which do not have this process's credentials.
        yield _AWS, of_aws("sts", s3.region)
    if catalog.type == GLUE:
        yield _AWS, glue.address(catalog)
    if catalog.type == REST:
        yield _ICEBERG, catalog.uri
        if catalog.oauth2_server_uri:
            yield _ICEBERG, catalog.oauth2_server_uri


def _check(client: str, url: str, proxy: str) -> None:
    parts = urlsplit(proxy)
    if parts.scheme != "http":
        raise unusable(url, proxy, "a JVM's clients go through one of http:// alone")
    if client == _JAVA and parts.username:
        raise unusable(url, proxy, "Java's login to Kafka goes through one without a login alone")


def _check_catalog(ends: list[tuple[str, str]]) -> None:
    """Iceberg's client has one proxy for the catalog and its token endpoint, or none."""
    first, *others = [url for client, url in ends if client == _ICEBERG] or [""]
    for other in others:
        if (found := proxy_of(first)) != (second := proxy_of(other)):
            proxied, direct = (first, other) if found else (other, first)
            how = "through another one" if found and second else "directly"
            reason = (
                f"Iceberg's client asks the catalog and its token endpoint in one way, and {host_of(direct)}"
            )
            raise unusable(proxied, found or second, f"{reason} is to be asked {how}")


def _covering(url: str, hosts: Mapping[str, None]) -> str:
    """The one of the hosts that the address is at or below; empty for none."""
    wanted = f".{urlsplit(url).hostname or ''}"
    return next((host for host in hosts if host and wanted.endswith(f".{host}")), "")
