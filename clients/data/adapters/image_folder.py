"""Pictures sorted into one folder per label: `FOLDER/MEL/a.jpg` has the label MEL.

Nothing is known of lesions, patients and tones, so each picture is taken for a lesion of its own. Where that
is not so, import to a manifest first and fill in its `lesion_id` and `patient_id`.
"""

from pathlib import Path
from typing import Literal

from clients.data.adapters.adapter import Adapter
from clients.data.errors import AdapterError
from clients.data.manifests.manifest import Manifest, Row
from clients.data.pictures.files import PICTURE_SUFFIXES


class ImageFolder(Adapter):
    """One sub-folder per label; no options."""

    name: Literal["image-folder"] = "image-folder"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture, labelled by the first folder on its path."""
        rows = [
            Row(image=path.relative_to(folder).as_posix(), label=path.relative_to(folder).parts[0])
            for path in sorted(folder.glob("*/**/*"))
            if path.suffix.lower() in PICTURE_SUFFIXES and not path.name.startswith(".")
        ]
        if not rows:
            raise AdapterError(f"{folder} holds no pictures in folders named by label (FOLDER/LABEL/a.jpg)")
        return Manifest.of(rows, folder)
