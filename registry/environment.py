"""Defaults from the environment: the database, the store, the current user and the host."""

import getpass
import os
import socket
from pathlib import Path
from typing import Final

import platformdirs


def database_url(given: str | None) -> str:
    """The URL of the database: `given`, or `DERMFED_REGISTRY_URL`, or a file in the user's data folder."""
    return given or os.environ.get("DERMFED_REGISTRY_URL") or f"sqlite:///{_user_folder() / 'registry.db'}"


OUTCOMES: Final = "DERMFED_OUTCOMES_URL"
"""The environment variable that names the database of outcomes."""


def outcomes_url(given: str | None) -> str | None:
    """The URL of the database of outcomes: `given`, or `DERMFED_OUTCOMES_URL`; None where none is named."""
    return given or os.environ.get(OUTCOMES) or None


def store_location(given: str | None) -> str:
    """The URI of the store: `given`, or `DERMFED_STORE`, or a folder in the user's data folder."""
    return given or os.environ.get("DERMFED_STORE") or str(_user_folder() / "store")


PASSWORD: Final = "DERMFED_KEY_PASSWORD"
"""The environment variable that holds the password of a private key."""

SIGNING_KEY: Final = "DERMFED_SIGNING_KEY"
"""The environment variable that names the file of the private key of whoever does something."""


def signing_key(given: Path | None = None) -> Path | None:
    """The file of the private key to sign with: `given`, or that of `DERMFED_SIGNING_KEY`, if any."""
    named = os.environ.get(SIGNING_KEY, "")
    return given or (Path(named) if named else None)


def key_password() -> str | None:
    """The password of private keys, if there is one."""
    return os.environ.get(PASSWORD)


def current_user() -> str:
    """The current user's name, as events record the actor."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user often has no name
        return f"user {os.getuid()}"


def current_host() -> str:
    """The name of this machine, as events record the host."""
    return socket.gethostname()


def _user_folder() -> Path:
    return Path(platformdirs.user_data_dir("dermfed"))
