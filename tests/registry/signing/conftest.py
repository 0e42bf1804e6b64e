"""Keys and certificates to test signatures with."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

DAY = timedelta(days=1)


@pytest.fixture
def key() -> Callable[..., ec.EllipticCurvePrivateKey]:
    """Draws a private key, of P-256 unless another curve is given."""
    return lambda curve=None: ec.generate_private_key(curve or ec.SECP256R1())


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a private key, a public key or a certificate as PEM; returns the file."""

    def to_file(what: Any, name: str = "", password: bytes | None = None) -> Path:
        path = tmp_path / (name or f"{len(list(tmp_path.glob('*.pem')))}.pem")
        if isinstance(what, x509.Certificate):
            content = what.public_bytes(Encoding.PEM)
        elif hasattr(what, "private_bytes"):
            hidden = BestAvailableEncryption(password) if password else NoEncryption()
            content = what.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden)
        else:
            content = what.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        path.write_bytes(content)
        return path

    return to_file


@pytest.fixture
def certificate() -> Callable[..., x509.Certificate]:
    """Issues a certificate for a key: by itself, or by an authority; valid now unless told otherwise."""

    def issue(
        own: Any,
        name: str,
        issuer: tuple[x509.Certificate, Any] | None = None,
        *,
        authority: bool = False,
        signs: bool = True,
        start: timedelta = -DAY,
        end: timedelta = DAY,
    ) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        usage = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign",
             "encipher_only", "decipher_only"), False
        )  # fmt: skip
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer[0].subject if issuer else subject)
            .public_key(own.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + start)
            .not_valid_after(now + end)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(
                x509.KeyUsage(digital_signature=signs, key_cert_sign=authority, **usage), critical=True
            )
        )
        return builder.sign(issuer[1] if issuer else own, hashes.SHA256())

    return issue
