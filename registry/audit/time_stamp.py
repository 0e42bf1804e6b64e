"""Time stamps of heads (RFC 3161): an authority signs a hash and the time, and nobody here can do it later.

Needs the extra `stamp`. The network is used by `ask` alone.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx

from registry.errors import KeyUnusable, StampError

try:
    from cryptography import x509
    from rfc3161_client import (
        HashAlgorithm,
        TimeStampRequest,
        TimestampRequestBuilder,
        TimeStampResponse,
        VerificationError,
        VerifierBuilder,
        decode_timestamp_response,
    )
except ImportError as error:
    raise KeyUnusable(
        "time stamps cannot be made or checked without the package rfc3161-client; install dermfed[stamp]"
    ) from error

SECONDS = 30
"""How long an authority may take to answer."""


@dataclass(frozen=True)
class Authorities:
    """The certificates by which a time stamp is trusted: roots, and those between them and the stamp's."""

    certificates: tuple[x509.Certificate, ...]

    @classmethod
    def read(cls, files: Sequence[Path]) -> "Authorities":
        """Reads the certificates in these PEM files, each of which may hold several.

        Raises:
            KeyUnusable: a file holds none.
        """
        found: list[x509.Certificate] = []
        for file in files:
            try:
                found += x509.load_pem_x509_certificates(file.read_bytes())
            except OSError as error:
                raise KeyUnusable(f"{file} cannot be read ({error.strerror}); give a PEM file") from error
            except ValueError as error:
                raise KeyUnusable(f"{file} holds no certificate in PEM that can be read: {error}") from error
        return cls(tuple(dict.fromkeys(found)))

    def time_of(self, stamp: bytes, content: bytes) -> datetime:
        """When this content was stamped.

        Raises:
            StampError: the stamp is of something else, or not of an authority that is trusted.
        """
        answer = _read(stamp)
        try:
            verifier = VerifierBuilder(roots=list(self.certificates), tsa_certificate=self._signer(answer))
            verifier.build().verify_message(answer, content)
        except (VerificationError, ValueError) as error:
            raise StampError(
                f"its time stamp does not hold ({error}); it counts if an authority that --tsa-trust names "
                "has signed it, and over exactly this head"
            ) from error
        return answer.tst_info.gen_time

    def _signer(self, answer: TimeStampResponse) -> x509.Certificate | None:
        """The certificate of whoever signed the answer, if these have it: an answer may come without."""
        signers = {(one.issuer, one.serial_number) for one in answer.signed_data.signer_infos}
        own = (one for one in self.certificates if (one.issuer, one.serial_number) in signers)
        return next(own, None)


def request(content: bytes) -> TimeStampRequest:
    """The question to an authority: for a stamp of this content by its sha256, with the certificate in it."""
    return TimestampRequestBuilder(data=content, hash_algorithm=HashAlgorithm.SHA256).build()


def ask(url: str, content: bytes, transport: httpx.BaseTransport | None = None) -> bytes:
    """Asks the authority at an address for a stamp of this content; returns its answer.

    Only that the answer is one to this question is checked here; see `Authorities.time_of`.

    Raises:
        StampError: it cannot be reached, refuses, or answers something else.
    """
    asked = request(content)
    try:
        with httpx.Client(timeout=SECONDS, transport=transport) as client:
            answered = client.post(
                url,
                content=asked.as_bytes(),
                headers={"Content-Type": "application/timestamp-query"},
            )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise StampError(f"the time stamping authority {url} cannot be asked ({error})") from error
    if answered.status_code != httpx.codes.OK:
        raise StampError(f"the time stamping authority {url} answered with status {answered.status_code}")
    answer = _read(answered.content)
    if answer.status not in (0, 1):
        raise StampError(
            f"the time stamping authority {url} refuses ({', '.join(answer.status_string) or answer.status})"
        )
    if answer.tst_info.nonce != asked.nonce or not is_of(answered.content, content):
        raise StampError(f"the time stamping authority {url} has stamped something else than was asked")
    return answered.content


def is_of(stamp: bytes, content: bytes) -> bool:
    """Whether a stamp says to be of this content, by its sha256, sha384 or sha512.

    Raises:
        StampError: it is no stamp.
    """
    hashed = _read(stamp).tst_info.message_imprint.message
    return hashed in (kind(content).digest() for kind in (hashlib.sha256, hashlib.sha384, hashlib.sha512))


def _read(stamp: bytes) -> TimeStampResponse:
    try:
        answer = decode_timestamp_response(stamp)
        _ = answer.status
    except ValueError as error:
        raise StampError(
            f"this is no answer of a time stamping authority (RFC 3161) that can be read ({error})"
        ) from error
    return answer
