"""Whom do the user's settings tell us to trust, and what do we show?

The rule: everything becomes PEM text, from files or from the setting itself, in Java's spelling (`ssl.truststore.*`,
`ssl.keystore.*` with type PEM) or librdkafka's (`ssl.ca.*`, `ssl.certificate.*`, `ssl.key.*`). Java's own stores (JKS,
PKCS12) can be read by Java alone: they are refused with the commands that convert them.

Example: `ssl.truststore.type=PEM` and `ssl.truststore.location=ca.pem` give `Tls(ca="-----BEGIN CERTIFICATE-----...")`.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.brokers.kafka.connection import Tls
from pipelines.brokers.kafka.properties import Entry
from pipelines.errors import UsageError

PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)

CONVERT = {
    "truststore": "keytool -list -rfc -keystore {path} > trusted.pem",
    "keystore": "keytool -importkeystore -srckeystore {path} -destkeystore client.p12 -deststoretype PKCS12"
    " && openssl pkcs12 -in client.p12 -nodes -out client.pem",
}
"""What turns a store of Java's own into PEM; both ask for its password."""


@dataclass(slots=True)
class Settings:
    """The settings of one file by key, and what the user has to be told of them."""

    path: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def get(self, key: str) -> str | None:
        """The value without blanks round it; None when it is not given or empty."""
        entry = self.entries.get(key)
        return entry.value.strip() or None if entry is not None else None

    def first(self, *keys: str) -> Entry | None:
        """The first of these settings that is given and not empty."""
        return next((self.entries[key] for key in keys if self.get(key) is not None), None)

    def warn(self, entry: Entry, text: str) -> None:
        """Keeps a warning about a line."""
        self.warnings.append(f"{self.path} line {entry.line}: {text}")

    def error(self, entry: Entry | None, text: str) -> UsageError:
        """The error to raise about a line, or about the whole file."""
        return UsageError(f"{self.path}: {text}" if entry is None else f"{self.path} line {entry.line}: {text}")


def own_tls(settings: Settings) -> Tls:
    """The TLS settings of the file. Raises UsageError that names the line."""
    if (settings.get("enable.ssl.certificate.verification") or "true").lower() != "true":
        raise settings.error(
            settings.entries["enable.ssl.certificate.verification"],
            "Kafka's Java client cannot be told to trust everybody; give the authority's certificate with ssl.ca.location",
        )
    certificate, key = _identity(settings)
    return Tls(_trusted(settings), certificate, key, settings.get("ssl.key.password"), _verifies_hostname(settings))


def _verifies_hostname(settings: Settings) -> bool:
    entry = settings.entries.get("ssl.endpoint.identification.algorithm")
    if entry is None:
        return True
    value = entry.value.strip().lower()
    if value not in ("https", "", "none"):
        raise settings.error(entry, f"{entry.key} is {value!r}; expected https, or nothing for no check")
    return value == "https"


def _trusted(settings: Settings) -> str | None:
    if settings.get("ssl.ca.location") == "probe":  # librdkafka's word for the system's own trust
        return None
    inline = settings.first("ssl.truststore.certificates", "ssl.ca.pem")
    return _pem(settings, inline, _store(settings, "truststore") or settings.first("ssl.ca.location"), "CERTIFICATE")


def _identity(settings: Settings) -> tuple[str | None, str | None]:
    """Our certificate (with its chain) and our key; both None when none is shown."""
    store = _store(settings, "keystore")
    chain = settings.first("ssl.keystore.certificate.chain", "ssl.certificate.pem")
    key = settings.first("ssl.keystore.key", "ssl.key.pem")
    certificate_text = _pem(settings, chain, store or settings.first("ssl.certificate.location"), "CERTIFICATE")
    key_text = _pem(settings, key, store or settings.first("ssl.key.location"), "KEY")
    if (certificate_text is None) != (key_text is None):
        missing = "certificate" if certificate_text is None else "key"
        raise settings.error(None, f"the client's own TLS identity has no {missing}; give both the certificate and the key")
    return certificate_text, key_text


def _store(settings: Settings, store: str) -> Entry | None:
    """The setting that names a PEM file. A store of Java's own kind is an error that says how to convert it."""
    entry = settings.first(f"ssl.{store}.location")
    if entry is None:
        return None
    kind = (settings.get(f"ssl.{store}.type") or "").upper()
    if kind in ("", "PEM") and b"-----BEGIN " in _read(settings, entry):
        if not kind:
            settings.warn(entry, f"taken as PEM; Kafka's own tools want ssl.{store}.type=PEM for it")
        return entry
    path = entry.value.strip()
    found = f"a {kind} store" if kind not in ("", "PEM") else "not a PEM file"
    raise settings.error(
        entry,
        f"{path} is {found}, and Lastack reads PEM; convert it ({CONVERT[store].format(path=path)}), then set"
        f" ssl.{store}.type=PEM and ssl.{store}.location to the new file",
    )


def _pem(settings: Settings, inline: Entry | None, location: Entry | None, what: str) -> str | None:
    """The PEM blocks that are given in the setting itself, else in the file that it names; None when neither is given."""
    entry = inline or location
    if entry is None:
        return None
    text = entry.value if inline is not None else _read(settings, entry).decode("latin-1")
    blocks = pem_blocks(text, what)
    if not blocks:
        raise settings.error(entry, f"{entry.key} holds no PEM block of the kind -----BEGIN {what}-----")
    return blocks


def _read(settings: Settings, entry: Entry) -> bytes:
    try:
        return Path(entry.value.strip()).read_bytes()
    except OSError as error:
        raise settings.error(entry, f"{entry.key}: {entry.value.strip()} cannot be read: {error.strerror}") from error


def pem_blocks(text: str, what: str) -> str:
    """The PEM blocks whose label ends with `what`, without the remarks that keytool and openssl write between them.

    PEM in a properties file may be one long line; PEM readers want the base64 on lines of its own.
    """
    blocks = []
    for match in PEM_BLOCK.finditer(text):
        label = match[1]
        if not label.endswith(what):
            continue
        head, tail = f"-----BEGIN {label}-----", f"-----END {label}-----"
        body = match[0][len(head) : -len(tail)].strip()
        # An old-style encrypted key has headers (Proc-Type, DEK-Info) that must keep their lines.
        lines = body.splitlines() if ":" in body else re.findall(r".{1,64}", re.sub(r"\s+", "", body))
        blocks.append("\n".join((head, *lines, tail)))
    return "\n".join(blocks) + "\n" if blocks else ""
