"""Opens the store of an address: a folder, or a filesystem of fsspec."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from registry.addresses import holds_credentials, masked
from registry.errors import InvalidName
from registry.store.base import FolderStore, Store

_ALLOWED = "name a folder, file:///path/to/folder, or another place such as s3://bucket/models"
_KINDS = {
    *(
        "file",
        "local",
        "memory",
        "s3",
        "s3a",
        "gs",
        "gcs",
        "az",
        "abfs",
        "abfss",
        "sftp",
        "ssh",
        "smb",
        "hdfs",
    ),
    *("ftp", "http", "https", "webdav", "postgres", "postgresql", "sqlite"),
}


def open_store(location: str) -> "Store":
    """Opens the store at a path, a `file://` address, or an address that fsspec understands.

    What looks like an address with a letter missing is no folder that would be made.

    Raises:
        InvalidName: no such kind of address, or one of a kind that cannot be written to.
        StoreError: the location cannot be opened, or needs a package that is not installed.
    """
    scheme, colon, _ = location.partition("://")
    if not colon:
        if _looks_mistyped(location):
            raise InvalidName(
                f"the store {masked(location)!r} is no folder, and no address either: an address has `://` "
                f"after its kind; {_ALLOWED}"
            )
        return FolderStore(Path(location).absolute())
    if scheme.lower() != "file":
        from registry.store.remote import open_remote  # fsspec is for those who use it

        return open_remote(location)
    try:
        address = urlsplit(location)
    except ValueError as error:
        raise InvalidName(f"the store {masked(location)!r} is no address; {_ALLOWED}") from error
    if address.netloc not in ("", "localhost") or not address.path:
        raise InvalidName(f"the store {masked(location)!r} cannot be used; {_ALLOWED}")
    return FolderStore(Path(unquote(address.path)))


def _looks_mistyped(location: str) -> bool:
    """Whether a location is rather an address with a letter missing than a folder that is to be made."""
    kind = location.partition(":")[0].lower().strip("/")
    return ((kind in _KINDS and ":" in location) or holds_credentials(location)) and not Path(
        location
    ).exists()
