"""Opens the store of an address: a folder, or a filesystem of fsspec."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from registry.errors import InvalidName
from registry.store.base import FolderStore, Store


def open_store(location: str) -> "Store":
    """Opens the store at a path, a `file://` address, or an address that fsspec understands.

    Raises:
        InvalidName: no such kind of address, or one of a kind that cannot be written to.
        StoreError: the location cannot be opened, or needs a package that is not installed.
    """
    scheme, colon, _ = location.partition("://")
    if not colon:
        return FolderStore(Path(location).absolute())
    if scheme.lower() != "file":
        from registry.store.remote import open_remote  # fsspec is for those who use it

        return open_remote(location)
    address = urlsplit(location)
    if address.netloc not in ("", "localhost") or not address.path:
        raise InvalidName(
            f"the store {location!r} cannot be used; name a folder, file:///path/to/folder, or another place "
            "such as s3://bucket/models"
        )
    return FolderStore(Path(unquote(address.path)))
