"""Signatures of versions, in the format of the OpenSSF's model signing, which other tools verify too.

- `envelope`: the stored file: a sigstore bundle around a DSSE envelope, with the in-toto statement in it.
- `keys`: keys and certificates from PEM files, and signatures made and verified with them.
- `attestation`: signing the test of a bundle, and verifying who has.
- `versions`: signing and verifying the versions of a registry.

`keys` needs the extra `sign`; Without it signatures are stored and shown, and cannot be verified.
"""
