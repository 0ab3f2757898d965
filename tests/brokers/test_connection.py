"""One model of the way in: what the user wrote holds for every client, and nothing of it is dropped in silence."""

import base64
import re
import subprocess
from pathlib import Path

import pytest

from pipelines.brokers.kafka.client_properties import load
from pipelines.brokers.kafka.connection import Connection, Sasl, Security, Tls, addresses
from pipelines.brokers.kafka.properties import login
from pipelines.errors import UsageError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET = 'p"w\\,=1'
JAAS = f'{PLAIN} required \\\n  username="kate" password="p\\\\"w\\\\\\\\,=1";'
BOOTSTRAP = "a:1,b:2"


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority and a client's certificate and key, as openssl makes them."""
    folder = tmp_path_factory.mktemp("pem")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=ca")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "own.key", "-out", "own.csr", "-subj", "/CN=own")
    openssl("x509", "-req", "-in", "own.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "own.crt", "-days", "2")
    openssl("pkcs8", "-topk8", "-in", "own.key", "-out", "pbes2.key", "-passout", "pass:pw")
    openssl("pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-in", "own.key", "-out", "pbes1.key", "-passout", "pass:pw")
    openssl("rsa", "-in", "own.key", "-traditional", "-out", "pkcs1.key")
    (folder / "own.pem").write_text((folder / "own.key").read_text() + "a remark\n" + (folder / "own.crt").read_text())
    return folder


def written(folder: Path, text: str) -> Path:
    path = folder / "client.properties"
    path.write_text(text, "latin-1")
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", [("a", 1)]),
        ("a.b.c:9092, d:65535,", [("a.b.c", 9092), ("d", 65535)]),
        ("[::1]:9092", [("::1", 9092)]),
    ],
)
def test_addresses_are_read(text: str, expected: list[tuple[str, int]]) -> None:
    assert [tuple(one) for one in addresses(text)] == expected
    assert addresses(",".join(map(str, addresses(text)))) == addresses(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("a", "no port"),
        (":9092", "no host"),
        ("a:", "not a port"),
        ("a:x", "not a port"),
        ("a:0", "not a port"),
        ("a:65536", "not a port"),
        ("::1:9092", "no port"),
        ("http://a:1/", "write 'a:1'"),
        ("::1", "in brackets: [::1]:9092"),
        ("a:" + "9" * 5000, "not a port"),
        ("x" * 64 + ":1", "not the name of a host"),
        ("a b:1", "not the name of a host"),
        ("a\x00b:1", "not the name of a host"),
        ("\udcff:1", "not the name of a host"),
    ],
)
def test_a_wrong_address_is_quoted_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        addresses(text)


@pytest.mark.parametrize("text", ["u:s3cret@a:1", "http://u:s3cret@a:1", "u:s3cret@a", "b:1,u:s3cret@a:99999"])
def test_a_password_in_an_address_is_refused_and_never_quoted(text: str) -> None:
    with pytest.raises(UsageError, match="has an @ in it") as error:
        addresses(text)
    assert "s3cret" not in str(error.value)


def test_without_a_file_nothing_but_the_address_is_set() -> None:
    connection = load(BOOTSTRAP, None)

    assert connection.librdkafka() == {"bootstrap.servers": BOOTSTRAP, "security.protocol": "PLAINTEXT", "client.id": "lastack"}
    assert connection.java("kafka.")["kafka.bootstrap.servers"] == BOOTSTRAP
    assert connection.tls_context() is None


def test_java_s_form_gives_the_same_to_every_client(tmp_path: Path, pem: Path) -> None:
    text = (
        f"security.protocol=sasl_ssl\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={pem / 'ca.pem'}\nclient.id=mine\n"
    )
    connection = load(BOOTSTRAP, written(tmp_path, text))

    assert connection.security is Security.SASL_SSL
    assert connection.sasl == Sasl("PLAIN", "kate", SECRET)
    librdkafka, java = connection.librdkafka(), connection.java("kafka.")
    assert (librdkafka["sasl.mechanisms"], librdkafka["sasl.username"], librdkafka["sasl.password"]) == ("PLAIN", "kate", SECRET)
    assert librdkafka["client.id"] == java["kafka.client.id"] == "mine"
    assert librdkafka["ssl.ca.pem"] == java["kafka.ssl.truststore.certificates"]
    assert login(java["kafka.sasl.jaas.config"]).options == {"username": "kate", "password": SECRET}
    assert connection.tls_context() is not None
    assert connection.warnings == ()


def test_librdkafka_s_form_means_the_same(tmp_path: Path, pem: Path) -> None:
    text = (
        "security.protocol=SASL_SSL\nsasl.mechanisms=SCRAM-SHA-512\nsasl.username=kate\nsasl.password=s e c\n"
        f"ssl.ca.location={pem / 'ca.pem'}\nssl.endpoint.identification.algorithm=none\n"
    )
    connection = load(BOOTSTRAP, written(tmp_path, text))

    assert connection.sasl == Sasl("SCRAM-SHA-512", "kate", "s e c")
    assert connection.java()["sasl.jaas.config"].startswith(SCRAM)
    assert connection.java()["ssl.endpoint.identification.algorithm"] == ""
    assert connection.librdkafka()["ssl.endpoint.identification.algorithm"] == "none"
    context = connection.tls_context()
    assert context is not None
    assert not context.check_hostname


@pytest.mark.parametrize("form", ["file", "inline", "librdkafka"])
def test_a_client_certificate_is_taken_in_every_form(tmp_path: Path, pem: Path, form: str) -> None:
    def inline(name: str) -> str:
        return (pem / name).read_text().replace("\n", " \\\n")

    texts = {
        "file": f"ssl.keystore.type=PEM\nssl.keystore.location={pem / 'own.pem'}\n",
        "inline": f"ssl.keystore.type=PEM\nssl.keystore.certificate.chain={inline('own.crt')}\nssl.keystore.key={inline('own.key')}\n",
        "librdkafka": f"ssl.certificate.location={pem / 'own.crt'}\nssl.key.location={pem / 'own.key'}\n",
    }
    connection = load(BOOTSTRAP, written(tmp_path, "security.protocol=SSL\n" + texts[form]))

    assert connection.tls.key == (pem / "own.key").read_text()
    assert connection.tls.certificate == (pem / "own.crt").read_text()
    assert connection.librdkafka()["ssl.key.pem"] == connection.java()["ssl.keystore.key"]


def test_an_encrypted_key_opens_with_its_password_only(tmp_path: Path, pem: Path) -> None:
    text = f"security.protocol=SSL\nssl.certificate.location={pem / 'own.crt'}\nssl.key.location={pem / 'pbes1.key'}\n"

    assert load(BOOTSTRAP, written(tmp_path, text + "ssl.key.password=pw\n")).java()["ssl.key.password"] == "pw"
    for wrong in ("ssl.key.password=other\n", ""):
        with pytest.raises(UsageError, match=r"ssl\.key\.password"):
            load(BOOTSTRAP, written(tmp_path, text + wrong))


@pytest.mark.parametrize(("key", "said"), [("pkcs1.key", "not PKCS#8"), ("pbes2.key", "PBES2")])
def test_a_key_that_java_cannot_read_is_refused_with_the_command_that_converts_it(
    tmp_path: Path, pem: Path, key: str, said: str
) -> None:
    text = f"security.protocol=SSL\nssl.certificate.location={pem / 'own.crt'}\nssl.key.location={pem / key}\nssl.key.password=pw\n"
    with pytest.raises(UsageError, match=f"{said}.*openssl pkcs8"):
        load(BOOTSTRAP, written(tmp_path, text))


@pytest.mark.parametrize("store", ["truststore", "keystore"])
@pytest.mark.parametrize("kind", ["", "JKS", "PKCS12"])
def test_a_java_store_is_refused_with_the_command_that_converts_it(tmp_path: Path, store: str, kind: str) -> None:
    (tmp_path / "some.jks").write_bytes(b"\xfe\xed\xfe\xed")
    text = f"security.protocol=SSL\nssl.{store}.location={tmp_path / 'some.jks'}\nssl.{store}.password=secret\n"
    with pytest.raises(UsageError, match=r"line 2: .*some.jks.*keytool") as caught:
        load(BOOTSTRAP, written(tmp_path, text + (f"ssl.{store}.type={kind}\n" if kind else "")))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protocl=SSL\n", "line 1: security.protocl is not known; did you mean security.protocol"),
        ("a=b\nsecruity.protocol=SSL\n", "line 2: secruity.protocol looks misspelt; did you mean security.protocol"),
        ("ssl.ca.locations=x\n", "line 1: ssl.ca.locations is not known; did you mean ssl.ca.location"),
        ("security.protocol=TLS\n", "line 1: security.protocol is 'TLS'; expected one of PLAINTEXT, SSL"),
        ("security.protocol=SASL_SSL\n", "sasl.mechanism is GSSAPI, Kafka's default"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n", "line 2: sasl.mechanism is OAUTHBEARER"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n", "line 2: PLAIN needs a user and a password"),
        (f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={PLAIN} required;\n", "line 3: .* needs .*Scram"),
        (f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required;\n", "line 3: .*no username"),
        ("sasl.kerberos.service.name=kafka\n", "line 1: sasl.kerberos.service.name is not supported"),
        ("sasl.login.callback.handler.class=x.Y\n", "line 1: .* is not supported"),
        ("security.protocol=SSL\nssl.ca.location=nowhere.pem\n", "line 2: .*nowhere.pem cannot be read"),
        ("security.protocol=SSL\nssl.ca.pem=none\n", "line 2: ssl.ca.pem holds no PEM"),
        ("security.protocol=SSL\nenable.ssl.certificate.verification=false\n", "line 2: .*trust everybody"),
        ("security.protocol=SSL\nssl.endpoint.identification.algorithm=ldaps\n", "line 2: .*'ldaps'"),
        ("a=\\u12\n", "line 1: malformed"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load(BOOTSTRAP, written(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--command-config .*absent\.properties: cannot be read"):
        load(BOOTSTRAP, tmp_path / "absent.properties")


def test_what_is_ignored_is_said(tmp_path: Path) -> None:
    text = "retries=4\nssl.protocol=TLSv1.3\nssl.ca.location=x.pem\nsasl.username=kate\n"

    assert [re.sub(r".*properties ", "", one) for one in load(BOOTSTRAP, written(tmp_path, text)).warnings] == [
        "line 1: retries is ignored: Lastack sets its own client options, so that its probes measure the cluster",
        "line 2: ssl.protocol is ignored: Lastack uses what Python's and librdkafka's TLS choose",
        "line 3: ssl.ca.location has no effect with security.protocol=PLAINTEXT",
        "line 4: sasl.username has no effect with security.protocol=PLAINTEXT",
    ]


def test_no_secret_shows_in_words(tmp_path: Path, pem: Path) -> None:
    key = (pem / "own.key").read_text()
    connection = Connection(addresses(BOOTSTRAP), Security.SASL_SSL, Sasl("PLAIN", "kate", "secret"), Tls(None, key, key, "secret"))

    for words in (repr(connection), str(connection), f"{connection}"):
        assert "secret" not in words
        assert "PRIVATE KEY" not in words
    assert "kate" in repr(connection)


def test_pem_is_found_among_keytool_s_remarks(tmp_path: Path, pem: Path) -> None:
    remarks = "Alias name: caroot\nOwner: CN=\xe4\n" + (pem / "ca.pem").read_text() + "\n*****\n"
    (tmp_path / "rfc.pem").write_text(remarks, "latin-1")
    connection = load(BOOTSTRAP, written(tmp_path, f"security.protocol=SSL\nssl.ca.location={tmp_path / 'rfc.pem'}\n"))

    assert connection.tls.ca is not None
    assert base64.b64decode("".join(connection.tls.ca.splitlines()[1:-1]))
    assert connection.tls.ca.startswith("-----BEGIN CERTIFICATE-----\n")
