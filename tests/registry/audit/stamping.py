"""A time stamping authority of our own."""

import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CONFIG = """
[tsa]
serial = {folder}/serial
crypto_device = builtin
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha384, sha512
ess_cert_id_alg = sha256
"""


@dataclass(frozen=True)
class Authority:
    """A time stamping authority: `openssl ts` with certificates of its own.

    Attributes:
        root: the file of the certificate by which it is trusted.
    """

    folder: Path
    root: Path

    def answer(self, query: bytes) -> bytes:
        """The answer to a question."""
        (self.folder / "query.tsq").write_bytes(query)
        given = ["-config", "tsa.cnf", "-section", "tsa", "-queryfile", "query.tsq"]
        own = ["-signer", "own.pem", "-inkey", "own.key", "-out", "answer.tsr"]
        subprocess.run(
            ["openssl", "ts", "-reply", *given, *own], cwd=self.folder, check=True, capture_output=True
        )
        return (self.folder / "answer.tsr").read_bytes()


def make_authority(folder: Path) -> Authority:
    """An authority whose files are in this folder."""
    if shutil.which("openssl") is None:
        pytest.skip("a time stamping authority needs openssl")
    now = datetime.now(UTC)
    root_key, own_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def issue(name: str, key: ec.EllipticCurvePrivateKey, *extensions: tuple[x509.ExtensionType, bool]):
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"root of {folder.name}")])
        built = x509.CertificateBuilder(
            issuer,
            subject,
            key.public_key(),
            x509.random_serial_number(),
            now - timedelta(1),
            now + timedelta(9),
        )
        for extension, critical in extensions:
            built = built.add_extension(extension, critical)
        certificate = built.sign(root_key, hashes.SHA256())
        return certificate.public_bytes(Encoding.PEM)

    root = issue(f"root of {folder.name}", root_key, (x509.BasicConstraints(ca=True, path_length=None), True))
    own = issue(
        "authority",
        own_key,
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), True),
    )
    (folder / "root.pem").write_bytes(root)
    (folder / "own.pem").write_bytes(own)
    (folder / "own.key").write_bytes(own_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / "tsa.cnf").write_text(CONFIG.format(folder=folder))
    return Authority(folder, folder / "root.pem")
