"""The rows of a manifest that go when a patient withdraws: the patient's, and what is linked to them."""

from collections.abc import Sequence

from clients.data.errors import ManifestError
from clients.data.manifests.groups import components, linkage_keys
from clients.data.manifests.manifest import Manifest
from registry.bundle.nearest import nearest


def groups_of(manifest: Manifest) -> list[int]:
    """A number for each row: equal ones are linked by patient, lesion or duplicate group."""
    numbers: list[int] = components([linkage_keys(row) for row in manifest.rows]).tolist()
    return numbers


def rows_of(manifest: Manifest, patients: Sequence[str]) -> frozenset[int]:
    """The places of the rows that go with some patients.

    A row without a patient that is linked to one of theirs shows the same lesion or is the same picture, and
    goes too.

    Raises:
        ManifestError: no patient is named in the manifest, or not this one; or a row of somebody else is
            linked to theirs.
    """
    known = list(dict.fromkeys(row.patient_id for row in manifest.rows if row.patient_id))
    if not known:
        raise ManifestError(
            f"no row of the manifest in {manifest.folder} has a patient_id, so nobody's pictures can be "
            "found; fill in the column patient_id of the rows of whoever withdraws, in all manifests alike"
        )
    for name in patients:
        if name not in known:
            raise ManifestError(
                f"no row has the patient_id {name!r}; {nearest(name, known)}. Nothing is written"
            )
    groups = groups_of(manifest)
    theirs = {group for row, group in zip(manifest.rows, groups, strict=True) if row.patient_id in patients}
    places = frozenset(place for place, group in enumerate(groups) if group in theirs)
    others = sorted({manifest.rows[place].patient_id for place in places} - {*patients, ""})
    if others:
        raise ManifestError(
            f"pictures of {', '.join(others[:5])} are linked with those of {', '.join(patients)} by "
            "lesion_id or duplicate_group, so that it is not clear whose they are. Mend these columns before "
            "a run, or name both patients"
        )
    return places
