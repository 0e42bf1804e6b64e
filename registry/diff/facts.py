"""Compares two manifests but for figures, one value under each dotted name (`lineage.seed`)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.manifest.schema import BundleManifest, sha256

_FIGURES: Final = {"metrics", "reference"}
_PACKED: Final = (
    "means",
    "whitening",
)  # matrices as text: what matters to a reader is whether they are the same


@dataclass(frozen=True)
class Changed:
    """One value that differs between two manifests.

    Attributes:
        what: its name, with dots, as in `bundle.json`.
        before, after: the value in each; None where it is absent.
    """

    what: str
    before: Any
    after: Any


def facts(manifest: BundleManifest) -> dict[str, Any]:
    """Every value of a manifest but its figures, by dotted name, in the order of `bundle.json`."""
    record = manifest.model_dump(mode="json", exclude=_FIGURES)
    for name, threshold_bin in (
        ("conformal", manifest.conformal.threshold_bin),
        ("abstention", manifest.abstention.threshold_bin),
    ):
        record[name]["threshold"] = LOGIT_BINS.lower(threshold_bin)
    _name_cases(record, manifest)
    unfamiliar = record["out_of_distribution"]
    if unfamiliar is not None:
        unfamiliar.update({name: sha256(unfamiliar[name].encode()) for name in _PACKED})
    labels = record.pop("labels")
    record["labels"] = {"order": [one["code"] for one in labels], **{one.pop("code"): one for one in labels}}
    return dict(_flat(record))


def _name_cases(record: dict[str, Any], manifest: BundleManifest) -> None:
    """Puts facts and patterns under their names; a model of single pictures has neither."""
    if manifest.case is None:
        del record["case"], record["patterns"]
        return
    facts = record["case"].pop("facts")
    record["case"]["facts"] = {
        "order": [one["name"] for one in facts],
        **{one.pop("name"): one for one in facts},
    }
    record["patterns"] = {}
    for rules in manifest.patterns:
        said = rules.model_dump(mode="json", exclude={"pattern"})
        for name in ("conformal", "abstention"):
            said[name]["threshold"] = LOGIT_BINS.lower(said[name]["threshold_bin"])
        record["patterns"][rules.pattern.name] = said


def changes(before: BundleManifest, after: BundleManifest) -> tuple[tuple[Changed, ...], tuple[str, ...]]:
    """The values that differ between two manifests, and the names of those that do not."""
    one, other = facts(before), facts(after)
    names = list(dict.fromkeys((*one, *other)))
    changed = tuple(
        Changed(name, one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)
    )
    differing = {each.what for each in changed}
    return changed, tuple(name for name in names if name not in differing)


def _flat(record: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value
