"""Defaults from the environment, addresses without their secrets, and the version of dermfed.

Addresses of databases and stores in messages, without what may be secret in them.

Whoever mistypes an address puts the password where no parser looks for one. So nothing here parses: all that
stands before the last `@` may be secret, and so may what follows a colon in a host's place, and a query.

The version of dermfed itself, also where it runs from its sources: in a bento it is not installed.
"""

import getpass
import os
import re
import socket
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

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
_PORT = re.compile(r"[0-9]*")
_SECRET_OPTION = re.compile(r"(?i)pass|secret|token|key|sig|cred|auth")
_SHORTEST: Final = 4
"""Letters of a part of a password that is hidden within a text; where a shorter part occurs, the text is."""


def masked(address: str) -> str:
    """An address, as it was given, without user, password and options."""
    start, rest = _parts(address)
    hidden, at, shown = rest.rpartition("@")
    if at and not start and ":" not in hidden:
        return address  # a path
    shown = re.split(r"[?#]", shown, maxsplit=1)[0]
    if at:
        return f"{start}***@{shown}"
    slashes = len(shown) - len(shown.lstrip("/"))
    host, slash, path = shown[slashes:].partition("/")
    name, colon, port = host.partition(":")
    if start and colon and not host.startswith("[") and not _PORT.fullmatch(port):
        return f"{start}{shown[:slashes]}{name}:***{slash}{path}"
    return f"{start}{shown}"


def holds_credentials(address: str) -> bool:
    """Whether an address has a user or a password, wherever they were typed."""
    start, rest = _parts(address)
    hidden, at, _ = rest.rpartition("@")
    return bool(at) and (bool(start) or ":" in hidden)


def without_secrets(text: str, address: str) -> str:
    """A text, such as a library's error, without what is secret in an address that it may quote."""
    text = text.replace(address, masked(address))
    secrets = _secrets(address)
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = re.sub(re.escape(secret), "***", text, flags=re.IGNORECASE)
        elif secret.lower() in text.lower():
            return "what was said of it may hold the password, and is not repeated"
    return text


def _parts(address: str) -> tuple[str, str]:
    """The scheme with its slashes, and what follows it."""
    found = _SCHEME.match(address)
    start = found[0] if found else ""
    if start.endswith("///"):  # a path
        start = start.rstrip("/") + "//"
    return start, address[len(start) :]


def _secrets(address: str) -> set[str]:
    """The parts of an address that may be those of a password, in each form that a text may have them in."""
    _, rest = _parts(address)
    hidden, at, after = rest.rpartition("@")
    if not at:
        hidden, after = re.split(r"[/?#]", rest.lstrip("/"), maxsplit=1)[0], rest
        if _PORT.fullmatch(hidden.partition(":")[2]):
            hidden = ""
    password = re.split(r"[:/]", hidden, maxsplit=1)[1:]
    found = {*password, *(part for one in password for part in re.split(r"[:@/?#&=]", one))}
    for option in re.split(r"[?&]", after)[1:]:
        name, _, value = option.partition("=")
        if _SECRET_OPTION.search(name):
            found.add(value)
    plain = {unquote(one) for one in found}
    forms = {*found, *plain, *map(quote, plain), *(repr(one)[1:-1] for one in plain)}
    return {one for one in forms if one}


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
