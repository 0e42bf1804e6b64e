"""The exceptions of bundles, pictures, counts and parts, as one tree.

BundleError
├── PictureError              a picture cannot be shown to a model
│   ├── NotAPicture           its bytes are no picture at all
│   ├── UnsupportedPicture    a picture of a kind that is not accepted (format, animation)
│   ├── PictureTooLarge       more pixels than the picture rule allows
│   └── DamagedPicture        its bytes end early or do not decode
│       └── TruncatedPicture  its bytes end before the picture does
├── NotTakenError             the model does not take what it is given of a case
├── CountsError               counts cannot be taken, added or read
├── PartError                 a part is not there, or what another distribution offers is none
├── GraphError                `model.onnx` is not the graph a bundle needs
├── ManifestError             `bundle.json` does not say what a bundle must say
│   └── OtherSchema           another version of dermfed wrote it
└── FolderError               a bundle's folder cannot be written or read
    └── BundleCorrupt         its files are not the ones that were written
"""


class BundleError(Exception):
    """Base of all errors of this package; its text is for the person who has to act on it."""


class PictureError(BundleError):
    """A picture cannot be shown to a model."""


class NotAPicture(PictureError):  # noqa: N818 - reads as what it says where it is caught
    """The bytes are no picture at all."""


class UnsupportedPicture(PictureError):  # noqa: N818
    """A picture of a kind that is not accepted."""


class PictureTooLarge(PictureError):  # noqa: N818
    """More pixels than the picture rule allows."""


class DamagedPicture(PictureError):  # noqa: N818
    """The bytes do not decode to a picture."""


class TruncatedPicture(DamagedPicture):
    """The bytes end before the picture does."""


class NotTakenError(BundleError, ValueError):
    """The model does not take what it is given of a case."""


class CountsError(BundleError, ValueError):
    """Counts cannot be taken, added or read."""


class PartError(BundleError, ValueError):
    """There is no part of a name, two claim it, or what another distribution offers cannot be used."""


class GraphError(BundleError):
    """`model.onnx` is not the graph that a bundle needs."""


class ManifestError(BundleError):
    """`bundle.json` does not say what a bundle must say."""


class OtherSchema(ManifestError):  # noqa: N818
    """Another version of dermfed wrote `bundle.json`."""


class FolderError(BundleError):
    """A bundle's folder cannot be written or read."""


class BundleCorrupt(FolderError):  # noqa: N818
    """A bundle's files are not the ones that were written."""
