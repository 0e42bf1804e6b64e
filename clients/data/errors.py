"""Errors about a hospital's data, as one tree.

training.errors.DataError
└── ClientDataError
    ├── ManifestError          a manifest cannot be read, or a row says something impossible
    ├── UnknownColumnError     a setting names a column that the manifest does not have
    ├── AdapterError           no such adapter, wrong options, or its folder lacks a file
    ├── LabelError             labels that the label map does not know, or none at all
    ├── SubgroupError          groups without pictures
    ├── SplitError             one lesion or patient was put on both sides of a split
    ├── PartitionError         pictures cannot be partitioned as the job asks
    ├── BrokenPicturesError    pictures that cannot be decoded
    └── MissingLibraryError    what was asked needs a library that is not installed
"""

from typing import ClassVar

from training.errors import DataError


class ClientDataError(DataError):
    """Base of all errors about a client's data; its text is for the person who owns the data."""


class ManifestError(ClientDataError):
    """A manifest cannot be read, or a row says something impossible."""

    code: ClassVar[str] = "manifest"


class UnknownColumnError(ClientDataError):
    """A job or a command names a column that the manifest does not have."""

    code: ClassVar[str] = "columns"


class AdapterError(ClientDataError):
    """No such adapter, wrong options for it, or its folder lacks a file."""

    code: ClassVar[str] = "adapter"


class LabelError(ClientDataError):
    """Labels that the label map does not know, or no labels at all."""

    code: ClassVar[str] = "labels"


class SubgroupError(ClientDataError):
    """Subgroups without pictures."""

    code: ClassVar[str] = "subgroups"


class SplitError(ClientDataError):
    """Pictures of one lesion or patient were put on both sides of a split."""

    code: ClassVar[str] = "split"


class PartitionError(ClientDataError):
    """Pictures cannot be partitioned among clients as asked: one would have none, or two share a name."""

    code: ClassVar[str] = "clients"


class BrokenPicturesError(ClientDataError):
    """Pictures that cannot be decoded, where the job refuses them."""

    code: ClassVar[str] = "pictures"


class MissingLibraryError(ClientDataError):
    """What was asked needs a library that is not installed."""

    code: ClassVar[str] = "library"
