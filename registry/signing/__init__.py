"""Signatures of versions, in the format of the OpenSSF's model signing, which other tools verify too.

- `statement`: the signed in-toto statement: names and digests of a bundle's two files.
- `envelope`: the stored file: a sigstore bundle around a DSSE envelope.
- `pem`: keys and certificates from PEM files: the signer, and the trust.
- `check`: making and verifying a signature.
- `trust`: reading the trusted keys, if any are named.
- `versions`, `rows`: signing and verifying the versions of a registry; the table of signatures.

`pem` and `check` need the extra `sign`; without it signatures are stored and shown, and cannot be verified.
"""
