"""Weights from Hugging Face, fetched where a job asks for them by `hub:` and nowhere else.

`hub:TAG` is one of timm's own for the model, e.g. `hub:ra_in1k`; `hub:OWNER/NAME` is a repository there with
a `model.safetensors`. What was fetched before is in Hugging Face's own cache, and is used without a network.
"""

from pathlib import Path
from typing import Any

import httpx

from training.errors import JobError
from training.models.encoders.preprocessing import Normalisation, Preprocessing
from training.models.torchvision_ops import prepare_torchvision

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


def preprocessing_of_hub(what: str, model: str) -> Preprocessing | None:
    """How timm's own weights were trained; None for a repository, which does not say it in one way."""
    return None if "/" in what else of_timm(_of_timm(what, model))


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
