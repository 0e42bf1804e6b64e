"""X.509 certificates: signed for keys that never leave their hospital, and renewed.

The federation has one authority, which signs. A certificate says who owns a key, and is no secret; so a
renewed one may be sent by any channel. The authority renews its own with the same key and name, so both old
and new certificates are valid until the old ones expire.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from clients.federation.errors import FederationFileError

DAYS = 360  # of a certificate that an authority signs
BITS = 2048  # of a key
OF_A_KEY = (x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier)


@dataclass(frozen=True)
class CertificateAuthority:
    """The federation's certificate authority (CA).

    Attributes:
        certificate: its own.
        key: its private key.
    """

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey


def make_request(name: str) -> tuple[bytes, bytes]:
    """A new private key and a certificate signing request (CSR) for it, both PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return plain, request.public_bytes(serialization.Encoding.PEM)


def read_request(path: Path, name: str) -> rsa.RSAPublicKey:
    """The public key of a signing request, after checking its name and signature.

    Raises:
        FederationFileError: it is none, or another's.
    """
    try:
        request = x509.load_pem_x509_csr(path.read_bytes())
        key = request.public_key()
        valid = request.is_signature_valid
    except (OSError, ValueError) as error:
        raise FederationFileError(
            f"{path} is no request: {error}; name the file that `dermfed-node request {name}` wrote"
        ) from error
    found = [str(each.value) for each in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    signature = "good" if valid else "bad"
    if not valid or found != [name]:
        raise FederationFileError(
            f"{path} is a request of {', '.join(found) or 'nobody'}, with a {signature} signature; "
            f"expected is one of {name}: ask for the one that `dermfed-node request {name}` wrote"
        )
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size < BITS:
        raise FederationFileError(
            f"{path} asks for another key than RSA of {BITS} bits or more; make it anew"
        )
    return key


def certify(
    like: x509.Certificate, key: rsa.RSAPublicKey, authority: CertificateAuthority, days: int
) -> x509.Certificate:
    """A certificate for `key` with the name and extensions of another, valid from now on.

    Args:
        like: the other.
        key: may be the other's own.
        authority: signs; nothing that it signs outlives its own certificate, save that one.
        days: that it is good for.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    end = now + timedelta(days=days)
    if like != authority.certificate:
        end = min(end, authority.certificate.not_valid_after_utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(like.subject)
        .issuer_name(authority.certificate.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
        )
    )
    for extension in like.extensions:
        if not isinstance(extension.value, OF_A_KEY):
            builder = builder.add_extension(extension.value, extension.critical)
    return builder.sign(authority.key, hashes.SHA256())


def key_of(certificate: x509.Certificate) -> rsa.RSAPublicKey:
    """The RSA public key of a certificate."""
    key = certificate.public_key()
    assert isinstance(key, rsa.RSAPublicKey), "FLARE makes RSA keys, and requests of others are refused"
    return key


def pem(certificate: x509.Certificate) -> bytes:
    """A certificate in PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)
