"""How is a Kafka cluster reached? One model, three forms.

The rule: a `Connection` is made once, from what the user gave (`--bootstrap` and, where needed, `--command-config
client.properties`, read by `client_properties`), and everything that talks to Kafka gets its own form of it: librdkafka a
dictionary (`librdkafka()`), Spark's Kafka source another (`java()`), our own wire a TLS context (`tls_context()`) and a SASL
mechanism. So a setting can never hold for one client and not for the other.

Secrets never show: `repr`, `str` and every message leave them out.

Example: `Connection.plain("127.0.0.1:9092").librdkafka()` is `{"bootstrap.servers": "127.0.0.1:9092", "security.protocol":
"PLAINTEXT"}`.
"""

import base64
import functools
import re
import ssl
import tempfile
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Self

from pipelines.errors import UsageError

PKCS8 = re.compile(r"-----BEGIN (ENCRYPTED )?PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END")
"""Java reads keys of this form only (org.apache.kafka.common.security.ssl.DefaultSslEngineFactory)."""
PBES2 = bytes.fromhex("06092a864886f70d01050d")
"""The object identifier of the encryption that openssl uses by default. Kafka's Java client asks the JDK for it by a name that
JDK 17 and 21 do not know (NoSuchAlgorithmException: PBES2 SecretKeyFactory not available), so it cannot read such a key."""

PORT_DIGITS = 5
JAAS_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
"""The SASL mechanisms that we speak, and the Java class that stands for each in `sasl.jaas.config`."""


class Security(StrEnum):
    """The protocol of a listener, by Kafka's own names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether the bytes are encrypted."""
        return self in (Security.SSL, Security.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether a user name and a password (or their proof) are sent."""
        return self in (Security.SASL_PLAINTEXT, Security.SASL_SSL)


class Address(NamedTuple):
    """Where a listener is. `str()` is the form that users write: HOST:PORT, with brackets round an IPv6 address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Sasl:
    """Who we are."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom we trust and how we show who we are; PEM texts; None: the system's own trust, or no certificate to show."""

    ca: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    verifies_hostname: bool = True


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the cluster is and how it lets us in. `warnings` are lines for the user about settings that were not taken."""

    bootstrap: tuple[Address, ...]
    security: Security = Security.PLAINTEXT
    sasl: Sasl | None = None
    tls: Tls = Tls()
    client_id: str = "lastack"
    warnings: tuple[str, ...] = ()

    @classmethod
    def plain(cls, bootstrap: str) -> Self:
        """A cluster that asks for nothing. Raises UsageError when `bootstrap` is not HOST:PORT[,HOST:PORT...]."""
        return cls(addresses(bootstrap))

    def librdkafka(self) -> dict[str, str]:
        """The settings as confluent-kafka takes them."""
        settings = {
            "bootstrap.servers": ",".join(map(str, self.bootstrap)),
            "security.protocol": self.security.value,
            "client.id": self.client_id,
        }
        if self.sasl is not None:
            settings |= {
                "sasl.mechanisms": self.sasl.mechanism,
                "sasl.username": self.sasl.username,
                "sasl.password": self.sasl.password,
            }
        if self.security.has_tls:
            pem = {
                "ssl.ca.pem": self.tls.ca,
                "ssl.certificate.pem": self.tls.certificate,
                "ssl.key.pem": self.tls.key,
                "ssl.key.password": self.tls.key_password,
            }
            settings |= {name: value for name, value in pem.items() if value is not None}
            settings["ssl.endpoint.identification.algorithm"] = "https" if self.tls.verifies_hostname else "none"
        return settings

    def java(self, prefix: str = "") -> dict[str, str]:
        """The settings as Kafka's Java clients take them; with `prefix="kafka."`, as Spark's Kafka source takes them.

        Raises UsageError for a client key that Java cannot read.
        """
        settings = {
            "bootstrap.servers": ",".join(map(str, self.bootstrap)),
            "security.protocol": self.security.value,
            "client.id": self.client_id,
        }
        if self.sasl is not None:
            settings["sasl.mechanism"] = self.sasl.mechanism
            settings["sasl.jaas.config"] = (
                f"{JAAS_MODULES[self.sasl.mechanism]} required"
                f" username={_jaas_quoted(self.sasl.username)} password={_jaas_quoted(self.sasl.password)};"
            )
        if self.security.has_tls:
            settings |= self._java_tls()
        return {prefix + name: value for name, value in settings.items()}

    def _java_tls(self) -> dict[str, str]:
        settings = {"ssl.endpoint.identification.algorithm": "https" if self.tls.verifies_hostname else ""}
        if self.tls.ca is not None:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.tls.ca}
        if self.tls.certificate is None or self.tls.key is None:
            return settings
        _check_key_of_java(self.tls.key)
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": self.tls.certificate,
            "ssl.keystore.key": self.tls.key,
        }
        if self.tls.key_password is not None:
            settings["ssl.key.password"] = self.tls.key_password
        return settings

    def tls_context(self) -> ssl.SSLContext | None:
        """The TLS settings as Python takes them; None without TLS. Raises UsageError for PEM that cannot be read."""
        return _context(self.tls) if self.security.has_tls else None


def addresses(text: str) -> tuple[Address, ...]:
    """HOST:PORT[,HOST:PORT...] in parts. Raises UsageError that quotes the part which is not of that form."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError("the bootstrap address is empty; expected HOST:PORT[,HOST:PORT...], such as broker1:9092,broker2:9092")
    return tuple(_address(part) for part in parts)


def _address(part: str) -> Address:
    # First of all, and without quoting it: what stands before an @ is a password.
    if "@" in part:
        raise UsageError(
            "a bootstrap address has an @ in it; user and password belong into the file of --command-config, write HOST:PORT"
        )
    if "://" in part:
        raise UsageError(f"bootstrap address {part!r} has a protocol in front; write {part.split('://', 1)[1].rstrip('/')!r}")
    host, colon, port = part.rpartition(":")
    if colon and not host:
        raise UsageError(f"bootstrap address {part!r} has no host; write HOST:PORT, such as broker1{part}")
    if colon and ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise UsageError(f"bootstrap address {part!r} has no port; write an IPv6 address in brackets: [{part}]:9092")
    if not colon:
        raise UsageError(f"bootstrap address {part!r} has no port; write HOST:PORT, such as {part}:9092")
    if not port.isascii() or not port.isdigit() or len(port) > PORT_DIGITS or not 0 < int(port) < 65536:
        raise UsageError(f"bootstrap address {part!r}: {port!r} is not a port; expected a number from 1 to 65535")
    if not _is_host(host):
        raise UsageError(f"bootstrap address {part!r}: {host!r} is not the name of a host; write HOST:PORT, such as broker1:9092")
    return Address(host.strip("[]"), int(port))


def _is_host(host: str) -> bool:
    """Whether a resolver can be asked for it at all."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return host.isprintable() and " " not in host


@functools.lru_cache(maxsize=4)
def _context(tls: Tls) -> ssl.SSLContext:
    """Made once, not for every connection: reading the system's certificates takes some 20 ms."""
    try:
        context = ssl.create_default_context(cadata=tls.ca)
        context.check_hostname = tls.verifies_hostname
        # Newer Pythons refuse certificates without key identifiers, as home-made authorities write them; Kafka takes them.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if tls.certificate is not None and tls.key is not None:
            _load_own_certificate(context, tls.certificate, tls.key, tls.key_password)
    except (ssl.SSLError, ValueError) as error:
        raise UsageError(
            f"the TLS certificates or the key cannot be used ({error}): is the PEM whole, does the key belong to the"
            " certificate, and is ssl.key.password right if the key is encrypted?"
        ) from error
    return context


def _jaas_quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _check_key_of_java(key: str) -> None:
    """Raises UsageError for a key that Kafka's Java client (in Spark, for the read-back) cannot read."""
    match = PKCS8.search(key)
    if match is None:
        raise UsageError(
            "the client key is PEM but not PKCS#8, and Kafka's Java client reads nothing else;"
            " convert it: openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in client.key -out client.pk8.key"
        )
    if match[1] and PBES2 in base64.b64decode(match[2])[:64]:
        raise UsageError(
            "the client key is encrypted with PBES2, which Kafka's Java client cannot read on Java 17 and 21;"
            " encrypt it otherwise: openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in client.key -out client.pk8.key"
        )


def _load_own_certificate(context: ssl.SSLContext, certificate: str, key: str, password: str | None) -> None:
    # Python reads a client certificate from files only; these are readable by us alone and gone when the context has them.
    # An empty password keeps OpenSSL from asking for one on the terminal.
    with tempfile.TemporaryDirectory(prefix="lastack-tls-") as folder:
        chain, secret = Path(folder, "chain.pem"), Path(folder, "key.pem")
        chain.write_text(certificate)
        secret.touch(0o600)
        secret.write_text(key)
        context.load_cert_chain(chain, secret, password=password or "")
