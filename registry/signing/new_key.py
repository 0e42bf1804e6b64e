"""Makes a key pair to sign with: two PEM files."""

import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from registry.errors import KeyUnusable
from registry.signing.pem import fingerprint, public_key_text


def write_key_pair(file: Path, password: str | None) -> tuple[Path, str]:
    """Writes a new private key of P-256 (PKCS 8, its owner's alone) and, beside it, its public half.

    Returns:
        the file of the public key, and its fingerprint.

    Raises:
        KeyUnusable: one of the files is there already, or cannot be written.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    cipher: KeySerializationEncryption = (
        BestAvailableEncryption(password.encode()) if password else NoEncryption()
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, cipher)
    public = file.with_name(f"{file.name.removesuffix('.key')}.pub")
    _write(public, public_key_text(key.public_key()).encode(), 0o644)
    try:
        _write(file, private, 0o600)
    except KeyUnusable:
        public.unlink()
        raise
    return public, fingerprint(key.public_key())


def _write(path: Path, content: bytes, mode: int) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as target:
            target.write(content)
    except FileExistsError as error:
        raise KeyUnusable(f"{path} is there already, and no key is overwritten; name another file") from error
    except OSError as error:
        raise KeyUnusable(
            f"{path} cannot be written ({error.strerror}); check the folder and its permissions"
        ) from error
