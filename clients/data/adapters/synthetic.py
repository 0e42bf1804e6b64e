"""Synthetic pictures, drawn when they are first asked for: a job runs with no download and no patients."""

from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from clients.data.adapters.adapter import Adapter
from clients.data.errors import AdapterError
from clients.data.manifests.csv_file import read_manifest
from clients.data.manifests.manifest import Manifest
from clients.data.synthetic.draw import TYPICAL
from clients.data.synthetic.write import MANIFEST, write_synthetic


class Synthetic(Adapter):
    """Synthetic skin lesions on six Fitzpatrick types.

    Attributes:
        pictures: how many.
        size: pixels on both sides.
        seed: other seeds make other pictures; it is not the job's seed.
        prefix: of the ids of lesions and patients, which are counted; equal ids in two sources are taken for
            the same lesion or patient. The pictures do not depend on it.
        typical: how typical of its class the least typical lesion is, from 0 to 1.
    """

    name: Literal["synthetic"] = "synthetic"
    makes_pictures: ClassVar[bool] = True
    pictures: int = Field(1200, ge=6)
    size: int = Field(64, ge=32, le=1024)
    seed: int = Field(0, ge=0)
    prefix: str = Field("", exclude=True)
    typical: float = Field(TYPICAL, ge=0, le=1, exclude_if=lambda typical: typical == TYPICAL)

    def manifest(self, folder: Path) -> Manifest:
        """The manifest of `folder`, whose pictures are drawn if it has none."""
        manifest = self._drawn(folder)
        return manifest.keep(
            [
                replace(
                    row,
                    lesion_id=f"{self.prefix}{row.lesion_id}",
                    patient_id=f"{self.prefix}{row.patient_id}",
                )
                for row in manifest.rows
            ]
        )

    def _drawn(self, folder: Path) -> Manifest:
        if not (folder / MANIFEST).exists():
            return write_synthetic(
                folder, pictures=self.pictures, size=self.size, seed=self.seed, typical=self.typical
            )
        manifest = read_manifest(folder / MANIFEST)
        if len(manifest.rows) != self.pictures:
            raise AdapterError(
                f"{folder} holds {len(manifest.rows)} pictures, the job asks for {self.pictures}; "
                f"name an empty folder, or none"
            )
        return manifest
