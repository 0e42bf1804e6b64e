"""What `dermfed-train encoders` tells: of the encoders that can be installed, and of a file of weights."""

from pathlib import Path
from typing import Any

from training.models.encoders.inspection import Contents, inspect
from training.models.encoders.sources import KNOWN, PACKAGE, Source, is_installed, weights_file


def known_encoders() -> list[dict[str, Any]]:
    """What is told of each encoder that can be installed."""
    return [listed(package) for package in KNOWN]


def facts_of(what: str) -> dict[str, Any]:
    """What a file of weights, or `package:NAME`, contains, and the blocks of a job that begins with it."""
    package = what.removeprefix(PACKAGE) if what.startswith(PACKAGE) or what in KNOWN else None
    weights = what if package is None else f"{PACKAGE}{package}"
    path = Path(what) if package is None else weights_file(package)
    known = KNOWN.get(package or "")
    source = Source(weights, path, known.licence if known else None)
    contents = inspect(source)
    return {
        "file": str(path),
        "size_mb": megabytes(path),
        "sha256": source.sha256,
        "licence": source.licence,
        "layout": contents.layout,
        "tensors": contents.tensors[0],
        "tensors_beside": contents.tensors[1],
        "values": contents.values,
        "model": contents.model,
        "certain": contents.certain,
        "head": contents.head,
        "normalisation_known": contents.known,
        "notes": contents.notes,
        "job": job_blocks(weights, contents) if contents.model else None,
    }


def listed(package: str) -> dict[str, Any]:
    """What is told of a known package."""
    known, there = KNOWN[package], is_installed(package)
    source = Source(f"{PACKAGE}{package}", weights_file(package)) if there else None
    return {
        "weights": f"{PACKAGE}{package}",
        "model": known.model,
        "trained_on": known.trained_on,
        "licence": known.licence,
        "installed": there,
        "size_mb": megabytes(source.path) if source else None,
        "sha256": source.sha256 if source else None,
    }


def megabytes(path: Path) -> float:
    """The size of a file."""
    return round(path.stat().st_size / 1e6, 1)


def job_blocks(weights: str, contents: Contents) -> dict[str, Any]:
    """The parts of a job that begins with these weights."""
    model: dict[str, Any] = {"name": contents.model, "weights": weights}
    blocks: dict[str, Any] = {"model": model}
    if not contents.known:
        wanted = contents.preprocessing
        model["normalisation"] = {
            "mean": [round(value, 4) for value in wanted.normalisation.mean],
            "std": [round(value, 4) for value in wanted.normalisation.std],
        }
        blocks["data"] = {"interpolation": wanted.interpolation}
    if contents.options:
        model["options"] = dict(contents.options)
    return blocks
