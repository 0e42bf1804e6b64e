"""What one's own manifests hold, as far as a job goes by it; no picture is opened."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clients.data.errors import ClientDataError
from clients.data.manifests.csv_file import read_manifest
from clients.data.manifests.manifest import Row, components, linkage_keys


@dataclass(frozen=True)
class Manifests:
    """The rows of all manifests.

    Attributes:
        paths: the files, in the order in which they were named.
        rows: of all of them.
        columns: those that every one of them has in addition to the known ones.
        patients: a number per row, equal for pictures that must stay together: of a patient, of a lesion, or
            duplicates.
    """

    paths: tuple[Path, ...]
    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    patients: tuple[int, ...]

    @property
    def labels(self) -> Counter[str]:
        """Pictures by label; those without one are left out."""
        return Counter(row.label for row in self.rows if row.label)

    def patients_of(self, keep: Sequence[bool]) -> int:
        """Number of patients of the kept rows; a lesion or picture without a named patient counts as one."""
        return len({patient for patient, kept in zip(self.patients, keep, strict=True) if kept})


def read_manifests(paths: Sequence[Path]) -> Manifests:
    """Read manifests.

    Raises:
        ManifestError: a manifest cannot be read, or rows say something impossible.
        ClientDataError: no label at all.
    """
    manifests = [read_manifest(path.absolute()) for path in paths]
    rows = tuple(row for manifest in manifests for row in manifest.rows)
    named = ", ".join(map(str, paths))
    if not any(row.label for row in rows):
        raise ClientDataError(
            f"no picture of {named} has a label, so there is nothing to teach; fill the column `label`, or "
            "see docs/pretraining.md for what can be learned without"
        )
    common = [name for name in manifests[0].extra_columns if all(name in m.extra_columns for m in manifests)]
    linked = components([linkage_keys(row) for row in rows]).tolist()
    return Manifests(tuple(paths), rows, tuple(common), tuple(linked))
