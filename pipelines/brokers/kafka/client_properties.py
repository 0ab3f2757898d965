"""What does the user's client.properties mean for us?

The rule: settings that say how to get in (`security.*`, `sasl.*`, `ssl.*`) are taken or refused, never dropped: a misspelt
one would otherwise connect with less security than was asked for, since Kafka's own clients ignore unknown keys in silence.
Both spellings are taken: Java's, as Kafka's tools take it in `--command-config`, and librdkafka's, as Confluent Cloud hands
it out. Every other client setting is ignored, and a warning says so: retries, timeouts and batching are what Lastack must set
itself for its probes to measure the cluster and not the settings.

Example: a file with `security.protocol=SASL_SSL`, `sasl.mechanism=PLAIN`, `sasl.jaas.config=...` and `retries=3` gives a
`Connection` with these credentials and the warning "client.properties line 4: retries is ignored: ...".
"""

import difflib
import re
from pathlib import Path

from pipelines.brokers.kafka.client_tls import Settings, own_tls
from pipelines.brokers.kafka.connection import JAAS_MODULES, Connection, Sasl, Security, Tls, addresses
from pipelines.brokers.kafka.properties import Entry, SyntaxFault, login, parse
from pipelines.errors import UsageError

TAKEN = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "enable.ssl.certificate.verification",
    "client.id",
    "bootstrap.servers",
)
HARMLESS = re.compile(
    r"ssl\.(protocol|enabled\.protocols|cipher\.suites|provider|trustmanager\.algorithm|keymanager\.algorithm|curves\.list|sigalgs\.list"
    r"|secure\.random\.implementation|allow\.(dn|san)\.changes)|security\.providers"
    r"|sasl\.login\.(connect|read|retry|refresh)\..*"
)
"""Settings of the way in that choose among equals (which TLS version, how often to refresh a token): ignored with a warning."""
REFUSED = re.compile(
    r"sasl\.(kerberos|oauthbearer)\..*|sasl\.oauthbearer.*|sasl\.(client|login)\.callback\.handler\.class|sasl\.login\.class"
    r"|ssl\.engine\..*|ssl\.crl\.location|enable\.sasl\.oauthbearer.*|config\.providers.*"
)
"""Settings of the way in that Lastack cannot honour."""
WAY_IN = re.compile(r"(security|sasl|ssl)\..*")
MECHANISMS = ", ".join(JAAS_MODULES)


def load(bootstrap: str, path: Path | None) -> Connection:
    """The connection to the cluster at `bootstrap`, with the settings of the properties file, if there is one.

    Raises UsageError that names the file, the line and the setting.
    """
    if path is None:
        return Connection.plain(bootstrap)
    try:
        # Kafka's tools read it as Latin-1 (Properties.load of a stream); what is beyond that is written as \uXXXX.
        text = path.read_text("latin-1")
    except OSError as error:
        raise UsageError(
            f"--command-config {path}: cannot be read: {error.strerror}; expected a client.properties, as Kafka's own tools take it"
        ) from error
    if any(char < " " and char not in "\t\n\r\f" for char in text):
        raise UsageError(f"--command-config {path}: is not a text; expected a client.properties, as Kafka's own tools take it")
    try:
        entries = parse(text)
    except SyntaxFault as fault:
        raise UsageError(f"{path} line {fault.line}: {fault}") from fault
    settings = Settings(path)
    for entry in entries:
        _sort(settings, entry)
    return _connection(settings, bootstrap)


def _connection(settings: Settings, bootstrap: str) -> Connection:
    security = _security(settings)
    for prefix, is_used in (("ssl.", security.has_tls), ("sasl.", security.has_sasl)):
        for key, entry in settings.entries.items():
            if key.startswith(prefix) and not is_used:
                settings.warn(entry, f"{key} has no effect with security.protocol={security}")
    connection = Connection(
        addresses(bootstrap),
        security,
        _sasl(settings) if security.has_sasl else None,
        own_tls(settings) if security.has_tls else Tls(),
        settings.get("client.id") or "lastack",
        tuple(settings.warnings),
    )
    # Said now, and not by whichever client happens to be first to use a certificate or a key that it cannot read.
    connection.tls_context()
    connection.java()
    return connection


def _sort(settings: Settings, entry: Entry) -> None:
    key = entry.key
    if key in TAKEN:
        settings.entries[key] = entry
    elif REFUSED.fullmatch(key):
        raise settings.error(entry, f"{key} is not supported; Lastack speaks SASL {MECHANISMS} and TLS with PEM files")
    elif HARMLESS.fullmatch(key):
        settings.warn(entry, f"{key} is ignored: Lastack uses what Python's and librdkafka's TLS choose")
    elif WAY_IN.fullmatch(key):
        raise settings.error(entry, f"{key} is not known; {_hint(key)}")
    elif difflib.get_close_matches(key, [one for one in TAKEN if WAY_IN.fullmatch(one)], 1, 0.9):
        raise settings.error(entry, f"{key} looks misspelt; {_hint(key)}")
    else:
        settings.warn(entry, f"{key} is ignored: Lastack sets its own client options, so that its probes measure the cluster")


def _hint(key: str) -> str:
    close = difflib.get_close_matches(key, TAKEN, 1, 0.75)
    family = key.split(".", maxsplit=1)[0]
    allowed = ", ".join(one for one in TAKEN if one.split(".")[0] == family) or ", ".join(TAKEN)
    return (f"did you mean {close[0]}? " if close else "") + f"known are: {allowed}"


def _security(settings: Settings) -> Security:
    value = (settings.get("security.protocol") or Security.PLAINTEXT).upper()
    if value not in set(Security):
        entry = settings.entries["security.protocol"]
        raise settings.error(entry, f"security.protocol is {value!r}; expected one of {', '.join(Security)}")
    return Security(value)


def _sasl(settings: Settings) -> Sasl:
    entry = settings.entries.get("sasl.mechanism") or settings.entries.get("sasl.mechanisms")
    mechanism = entry.value.strip().upper() if entry else "GSSAPI"
    if mechanism not in JAAS_MODULES:
        said = f"sasl.mechanism is {mechanism}" + ("" if entry else ", Kafka's default")
        raise settings.error(entry, f"{said}; Lastack speaks {MECHANISMS}")
    jaas = settings.entries.get("sasl.jaas.config")
    if jaas is not None:
        return _jaas(settings, jaas, mechanism)
    username, password = settings.get("sasl.username"), settings.entries.get("sasl.password")
    if username is None or password is None:
        wanted = f'sasl.jaas.config={JAAS_MODULES[mechanism]} required username="..." password="...";'
        raise settings.error(entry, f"{mechanism} needs a user and a password: {wanted} or sasl.username and sasl.password")
    return Sasl(mechanism, username, password.value)


def _jaas(settings: Settings, entry: Entry, mechanism: str) -> Sasl:
    try:
        module = login(entry.value)
    except SyntaxFault as fault:
        raise settings.error(entry, f"sasl.jaas.config: {fault}") from fault
    if module.module != JAAS_MODULES[mechanism]:
        raise settings.error(entry, f"sasl.jaas.config names {module.module}; {mechanism} needs {JAAS_MODULES[mechanism]}")
    missing = [name for name in ("username", "password") if name not in module.options]
    if missing:
        raise settings.error(entry, f'sasl.jaas.config has no {missing[0]}; expected {missing[0]}="..."')
    return Sasl(mechanism, module.options["username"], module.options["password"])
