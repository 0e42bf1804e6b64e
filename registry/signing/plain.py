"""Plain signatures over a text of a type, by the protocol of DSSE without its envelope."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from registry.signing.envelope import signed_bytes


def sign_plainly(
    key: ec.EllipticCurvePrivateKey, kind: str, payload: bytes, *, deterministic: bool = False
) -> bytes:
    """The signature (DER) over a payload of a type; a deterministic one is the same each time (RFC 6979)."""
    algorithm = ec.ECDSA(hash_for(key.public_key()), deterministic_signing=deterministic)
    return key.sign(signed_bytes(payload, kind), algorithm)


def verify_plainly(key: ec.EllipticCurvePublicKey, kind: str, payload: bytes, signature: bytes) -> bool:
    """Whether the signature is of this key, over this payload of this type."""
    try:
        key.verify(signature, signed_bytes(payload, kind), ec.ECDSA(hash_for(key)))
    except InvalidSignature:
        return False
    return True


def hash_for(key: ec.EllipticCurvePublicKey) -> hashes.HashAlgorithm:
    """The hash that goes with the key's curve: as long as the curve is strong."""
    by_size: dict[int, hashes.HashAlgorithm] = {
        256: hashes.SHA256(),
        384: hashes.SHA384(),
        521: hashes.SHA512(),
    }
    return by_size[key.key_size]
