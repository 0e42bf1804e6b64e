"""Where the registry keeps things, and who uses it, unless somebody says otherwise."""

import getpass
import os
import socket
from pathlib import Path

import platformdirs


def database_url(given: str | None) -> str:
    """The database: `given`, or `DERMFED_REGISTRY_URL`, or a file in the user's data folder."""
    return given or os.environ.get("DERMFED_REGISTRY_URL") or f"sqlite:///{_user_folder() / 'registry.db'}"


def store_place(given: str | None) -> str:
    """The store: `given`, or `DERMFED_STORE`, or a folder in the user's data folder."""
    return given or os.environ.get("DERMFED_STORE") or str(_user_folder() / "store")


def current_user() -> str:
    """Who history says did it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user often has no name
        return f"user {os.getuid()}"


def current_host() -> str:
    """From which machine history says it was done."""
    return socket.gethostname()


def _user_folder() -> Path:
    return Path(platformdirs.user_data_dir("dermfed"))
