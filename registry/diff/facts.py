"""What two manifests say that is no figure, one value under each name: `lineage.seed`, `labels.MEL.name`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from registry.bundle.schema import BundleManifest, sha256

_FIGURES: Final = {"metrics", "reference"}
_PACKED: Final = (
    "means",
    "whitening",
)  # matrices as text: what matters to a reader is whether they are the same


@dataclass(frozen=True)
class Changed:
    """One thing that the two say differently.

    Attributes:
        what: its name, with dots, as in `bundle.json`.
        before, after: what each says; None where one does not say it.
    """

    what: str
    before: Any
    after: Any


def facts(manifest: BundleManifest) -> dict[str, Any]:
    """Everything that the manifest says but its figures, by name, in the order of `bundle.json`."""
    said = manifest.model_dump(mode="json", exclude=_FIGURES)
    unfamiliar = said["out_of_distribution"]
    if unfamiliar is not None:
        unfamiliar.update({name: sha256(unfamiliar[name].encode()) for name in _PACKED})
    labels = said.pop("labels")
    said["labels"] = {"order": [one["code"] for one in labels], **{one.pop("code"): one for one in labels}}
    return dict(_flat(said))


def changes(before: BundleManifest, after: BundleManifest) -> tuple[tuple[Changed, ...], tuple[str, ...]]:
    """What changed, and the names of what did not."""
    one, other = facts(before), facts(after)
    names = list(dict.fromkeys((*one, *other)))
    changed = tuple(
        Changed(name, one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)
    )
    told = {each.what for each in changed}
    return changed, tuple(name for name in names if name not in told)


def _flat(said: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in said.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value
