"""`dermfed-registry sign`: vouch for versions with a private key."""

from pathlib import Path
from typing import Annotated

import typer

from registry.cli.arguments import AsJson, Model, Numbers
from registry.cli.open import open_registry
from registry.cli.output import answer, as_data
from registry.cli.signatures import signature_table
from registry.environment import key_password
from registry.signing.envelope import TRUSTED_KEYS

EXAMPLES = (
    "demo 1 2 3 4 --key release.key",
    "demo 5 --key release.key --certificate release.pem --json",
)

Trusted = Annotated[
    list[Path] | None,
    typer.Option(
        "--trust",
        metavar="FILE",
        envvar=TRUSTED_KEYS,
        help="Public keys or certificates in PEM whose signatures count; may be given several times.",
    ),
]


def sign(
    context: typer.Context,
    model: Model,
    numbers: Numbers,
    key: Annotated[Path, typer.Option(metavar="FILE", help="The private key, of an elliptic curve, in PEM.")],
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its certificate in PEM, to go with the signature.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Vouch for versions with a private key.

    The signature is over the digests of both files of each version; it lies in the store, and history tells
    of it. What the key has signed before keeps its signature. A key's password is read from
    DERMFED_KEY_PASSWORD. Make a key with `openssl ecparam -name prime256v1 -genkey -noout -out release.key`,
    and what others trust with `openssl pkey -in release.key -pubout -out release.pub`.
    """
    from registry.signing.pem import read_signer

    signer = read_signer(key, certificate, key_password())
    with open_registry(context) as registry:
        signatures = registry.sign(model, numbers, signer)
    answer(as_data(signatures), signature_table(signatures), as_json)
