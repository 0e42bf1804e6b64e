"""Signatures of versions: who vouches for a model, in a form that other tools read too.

- `statement`: what is signed: the names and digests of a bundle's two files.
- `envelope`: how it lies in the store: the file format of the OpenSSF's model signing.
- `pem`: keys and certificates from files, and which are trusted.
- `check`: whether a signature is one of a trusted key.
- `trust`: whom somebody named to be trusted, if anybody.
- `versions`, `rows`: signing and checking the versions of a registry.
- `command`, `lines`: `dermfed-registry sign`.

`pem` and `check` need the extra `sign`; without it signatures are kept and shown, and cannot be checked.
"""
