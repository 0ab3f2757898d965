"""What does a listener need that asks for TLS and a password, and what does its client need?

A certificate authority of the lab's own signs one certificate for 127.0.0.1 and localhost, which all its nodes share. It is made
with Java's own keytool, for a Java is here anyway. The client's side is a `client.properties` as Kafka's own tools take it.

Example: `issue(java.keytool, folder, Login.new("SCRAM-SHA-512"))` leaves `server.p12`, `ca.pem` and `client.properties`
in the folder.
"""

import os
import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.errors import LabError

MECHANISMS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
NAMES = "san=ip:127.0.0.1,dns:localhost"
KEYTOOL_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Login:
    """Who a client of the secured listener is."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    @classmethod
    def new(cls, mechanism: str = "PLAIN", username: str = "lastack") -> "Login":
        """A user with a password that nobody has had before."""
        if mechanism not in MECHANISMS:
            raise LabError(f"no such SASL mechanism: {mechanism}; one of {', '.join(MECHANISMS)}")
        return cls(mechanism, username, secrets.token_urlsafe(18))

    @property
    def jaas(self) -> str:
        """The client's `sasl.jaas.config`."""
        return f'{MECHANISMS[self.mechanism]} required username="{self.username}" password="{self.password}";'

    @property
    def server_jaas(self) -> str:
        """The listener's `sasl.jaas.config`: PLAIN keeps its users there, SCRAM in the metadata log."""
        users = f' user_{self.username}="{self.password}"' if self.mechanism == "PLAIN" else ""
        return f"{MECHANISMS[self.mechanism]} required{users};"

    @property
    def scram_arguments(self) -> list[str]:
        """What `kafka-storage format` needs to know the user from the first start on."""
        if self.mechanism == "PLAIN":
            return []
        return ["--add-scram", f"{self.mechanism}=[name={self.username},password={self.password}]"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """The files of a secured listener, and who may come in."""

    login: Login
    keystore: Path
    keystore_password: str = field(repr=False)
    ca: Path
    client_properties: Path

    def listener_properties(self, listener: str) -> dict[str, str]:
        """The server's properties for the listener of that name."""
        prefix = f"listener.name.{listener.lower()}"
        return {
            f"{prefix}.ssl.keystore.type": "PKCS12",
            f"{prefix}.ssl.keystore.location": str(self.keystore),
            f"{prefix}.ssl.keystore.password": self.keystore_password,
            f"{prefix}.ssl.key.password": self.keystore_password,
            f"{prefix}.sasl.enabled.mechanisms": self.login.mechanism,
            f"{prefix}.{self.login.mechanism.lower()}.sasl.jaas.config": self.login.server_jaas,
        }

    def librdkafka(self) -> dict[str, str]:
        """The client's properties as librdkafka takes them, without bootstrap.servers."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.login.mechanism,
            "sasl.username": self.login.username,
            "sasl.password": self.login.password,
            "ssl.ca.location": str(self.ca),
        }


def issue(keytool: Path, folder: Path, login: Login, addresses: Sequence[str] = ()) -> Credentials:
    """Makes the authority, the nodes' certificate and the client's properties. Raises LabError with keytool's own words.

    The certificate is good for loopback and for these addresses.
    """
    names = ",".join([NAMES, *(f"ip:{address}" for address in addresses)])
    folder.mkdir(parents=True, exist_ok=True)
    password = secrets.token_urlsafe(18)
    authority, server, ca = folder / "ca.p12", folder / "server.p12", folder / "ca.pem"
    request, signed = folder / "server.csr", folder / "server.pem"
    key = ["-keyalg", "EC", "-groupname", "secp256r1", "-validity", "3650"]
    steps = (
        (authority, ["-genkeypair", "-alias", "ca", "-dname", "CN=Lastack lab CA", "-ext", "bc:c", *key]),
        (authority, ["-exportcert", "-rfc", "-alias", "ca", "-file", str(ca)]),
        (server, ["-genkeypair", "-alias", "server", "-dname", "CN=localhost", "-ext", names, *key]),
        (server, ["-certreq", "-alias", "server", "-file", str(request)]),
        (authority, ["-gencert", "-rfc", "-alias", "ca", "-ext", names, "-infile", str(request), "-outfile", str(signed)]),
        (server, ["-importcert", "-noprompt", "-alias", "ca", "-file", str(ca)]),
        (server, ["-importcert", "-noprompt", "-alias", "server", "-file", str(signed)]),
    )
    for keystore, arguments in steps:
        _run(keytool, keystore, password, arguments)
    client = _write_secret(folder / "client.properties", _client_text(login, ca))
    return Credentials(login, server, password, ca, client)


def _client_text(login: Login, ca: Path) -> str:
    return (
        "security.protocol=SASL_SSL\n"
        f"sasl.mechanism={login.mechanism}\n"
        f"sasl.jaas.config={login.jaas}\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={ca}\n"
    )


def _run(keytool: Path, keystore: Path, password: str, arguments: list[str]) -> None:
    # By the environment, so that the password does not stand in the list of processes.
    store = ["-keystore", str(keystore), "-storetype", "PKCS12", "-storepass:env", "LASTACK_STOREPASS"]
    answer = subprocess.run(
        [str(keytool), *arguments, *store],
        capture_output=True,
        text=True,
        timeout=KEYTOOL_SECONDS,
        check=False,
        env={**os.environ, "LASTACK_STOREPASS": password},
    )
    if answer.returncode != 0:
        raise LabError(f"keytool {arguments[0]} failed: {(answer.stdout + answer.stderr).strip()}")


def _write_secret(path: Path, text: str) -> Path:
    """Writes a file that only its owner may read, from its first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return path
