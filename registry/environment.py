"""Defaults from the environment, addresses without their secrets, and the version of dermfed.

A mistyped address has its password where no parser looks for one. So nothing here parses: all that stands
before the last `@` may be secret, and so may what follows a colon in a host's place, and a query.
"""

import getpass
import os
import re
import socket
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final
from urllib.parse import unquote

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


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/*")
_SECRET_OPTION = re.compile(r"(?i)pass|secret|token|key|sig|cred|auth")


def masked(address: str) -> str:
    """An address, as it was given, without user, password and options."""
    start, rest = _parts(address)
    hidden, at, shown = rest.rpartition("@")
    if at and not start and ":" not in hidden:
        return address  # a path
    shown = re.split(r"[?#]", shown, maxsplit=1)[0]
    if at:
        return f"{start}***@{shown}"
    name, colon, port = shown.partition("/")[0].partition(":")
    if start and colon and not name.startswith("[") and not port.isdecimal():
        return f"{start}{name}:***"
    return f"{start}{shown}"


def without_secrets(text: str, address: str) -> str:
    """A text, such as a library's error, without what may be secret in an address that it may quote."""
    text = text.replace(address, masked(address))
    _, rest = _parts(address)
    hidden, at, after = rest.rpartition("@")
    name, _, password = (hidden if at else rest).partition(":")
    if not at and (name.startswith("[") or re.match(r"[0-9]*(/|$)", password)):
        password = ""  # a port
    options = [option.partition("=") for option in re.split(r"[?&]", after)[1:]]
    secret = {value for name, _, value in options if _SECRET_OPTION.search(name)}
    parts = {*re.split(r"[:@/?#&=]", password), *secret}
    plain = {unquote(part) for part in parts}
    if any(one.lower() in text.lower() for one in parts | plain if one):
        return "the text of the error may hold the password and is not repeated"
    return text


def _parts(address: str) -> tuple[str, str]:
    """The scheme with its slashes, and what follows it."""
    found = _SCHEME.match(address)
    start = found[0] if found else ""
    if start.endswith("///"):  # a path
        start = start.rstrip("/") + "//"
    return start, address[len(start) :]


_PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def own_version() -> str:
    """The version of dermfed, as installed or in the sources' `pyproject.toml`; else `unknown`."""
    try:
        return version("dermfed")
    except PackageNotFoundError:
        pass
    try:
        return str(tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["version"])
    except (OSError, KeyError, tomllib.TOMLDecodeError):
        return "unknown"
