"""What `model.weights` names, opened.

- `package:NAME`: an installed package of weights
- `hub:TAG` or `hub:OWNER/NAME`: fetched from Hugging Face, only where a job says so
- anything else: a file, of tensors or an ONNX graph
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import file_digest
from pathlib import Path

from registry.bundle.pictures.rule import Interpolation
from training.errors import JobError
from training.models.encoders.files import FileContent, preprocessing_in, read_file
from training.models.encoders.hub import fetch, preprocessing_of_hub
from training.models.encoders.onnx_file import is_onnx, read_onnx
from training.models.encoders.packages import KNOWN, weights_file
from training.models.encoders.preprocessing import Preprocessing

NONE, PACKAGE, HUB = "none", "package:", "hub:"


@dataclass(frozen=True)
class Source:
    """Where a model's first weights are.

    Attributes:
        weights: as the job names them.
        path: of the file.
        licence: under which they are given, where that is known.
    """

    weights: str
    path: Path
    licence: str | None = None

    @cached_property
    def sha256(self) -> str:
        """The digest of the file, as `sha256sum` tells it."""
        with self.path.open("rb") as file:
            return f"sha256:{file_digest(file, 'sha256').hexdigest()}"

    def read(self) -> FileContent:
        """The tensors."""
        return read_onnx(self.path) if self.path.is_file() and is_onnx(self.path) else read_file(self.path)


@dataclass(frozen=True)
class Origin:
    """What a model began from.

    Attributes:
        source: of its weights.
        model: the timm model.
        notes: what of the file was left out or changed.
    """

    source: Source
    model: str
    notes: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """What is told of it, in a line each."""
        licence = f" ({self.source.licence})" if self.source.licence else ""
        return (f"encoder {self.model} from {self.source.weights}{licence}", *self.notes)


def find_weights(weights: str, model: str) -> Source | None:
    """The file that `model.weights` names; None for `none`.

    Args:
        weights: as the job names them.
        model: the timm model that they are for.

    Raises:
        JobError: there is none, or it is of another model.
    """
    if weights == NONE:
        return None
    if weights.startswith(PACKAGE):
        package = weights.removeprefix(PACKAGE)
        known = KNOWN.get(package)
        if known is not None and known.model != model:
            raise JobError(
                f"model.weights: {weights} holds the weights of {known.model}, and model.name is {model}; "
                f"{_padding(model, known.model)}set model.name: {known.model}"
            )
        return Source(weights, weights_file(package), known.licence if known else None)
    if weights.startswith(HUB):
        path, licence = fetch(weights.removeprefix(HUB), model)
        return Source(weights, path, licence)
    return Source(weights, Path(weights))


def _padding(model: str, known: str) -> str:
    return "the two have equal tensors, but pad otherwise: " if known == f"tf_{model}" else ""


def preprocessing_of(weights: str, model: str) -> Preprocessing | None:
    """How the encoder was shown its pictures, where its source tells; None where it does not.

    Args:
        weights: as the job names them.
        model: the timm model that they are for.
    """
    if weights == NONE:
        return None
    if weights.startswith(PACKAGE):
        known = KNOWN.get(weights.removeprefix(PACKAGE))
        return known.preprocessing if known else None
    if weights.startswith(HUB):
        return preprocessing_of_hub(weights.removeprefix(HUB), model)
    return preprocessing_in(Path(weights))


def interpolation_of(weights: str, model: str) -> Interpolation:
    """By which the encoder's pictures were resized; bilinear where its source does not tell."""
    told = preprocessing_of(weights, model)
    return told.interpolation if told else "bilinear"
