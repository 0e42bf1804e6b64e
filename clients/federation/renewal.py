"""Certificate renewal: new certificates for the keys that are there; no key travels."""

import json
from pathlib import Path

from cryptography import x509

from clients.federation.certificates import DAYS, CertificateAuthority, certify, key_of, pem
from clients.federation.errors import KitError
from clients.federation.federation_file import RENEWED, Federation
from clients.federation.kit import PRIVATE, open_kit
from clients.federation.provision import open_authority, parties, state_file
from training.files import write_bytes, write_text

ROOT = "rootCA.pem"


def renew(federation: Federation, folder: Path, out: Path) -> list[Path]:
    """Renew the certificates of every kit, in place and in `renewed/` to be sent; returns these folders.

    An authority that was made here gets a new certificate too, for its key and name as they are.

    Args:
        federation: who is in.
        folder: from where the authority's files are named.
        out: where `provision` put the kits.

    Raises:
        KitError: a kit is not there.
        FederationFileError: the authority's files cannot be used.
    """
    facts = parties(federation)
    missing = [each.name for each in facts if not (out / each.name / "kit.json").exists()]
    if missing:
        raise KitError(
            f"no kit of {', '.join(missing)} in {out}; renewing needs the certificates that are in the kits, "
            "not their keys: run `dermfed-node provision` for those that are new or lost"
        )
    authority = open_authority(federation, folder, out)
    if federation.authority is None:
        authority = CertificateAuthority(
            certify(authority.certificate, key_of(authority.certificate), authority, federation.valid_days),
            authority.key,
        )
        path = state_file(federation, out)
        write_text(
            path,
            json.dumps({**json.loads(path.read_text()), "root_cert": pem(authority.certificate).decode()}),
        )
    made = []
    for each in facts:
        kit = open_kit(out / each.name)
        own = x509.load_pem_x509_certificate(kit.certificate.read_bytes())
        new = certify(own, key_of(own), authority, DAYS)
        place = out / RENEWED / each.name
        for target in (kit.path / "startup", place):
            target.mkdir(parents=True, exist_ok=True)
            target.chmod(PRIVATE)
            write_bytes(target / kit.certificate.name, pem(new))
            write_bytes(target / ROOT, pem(authority.certificate))
        made.append(place)
    return made
