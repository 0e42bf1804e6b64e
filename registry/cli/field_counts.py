"""`dermfed-registry field --counts`: a hospital's counts of the field as a file, for its node."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from registry.bundle.plain_text import shown
from registry.cli.open import open_outcomes
from registry.cli.output import answer
from registry.errors import NotFound

if TYPE_CHECKING:
    from registry.registry import Registry


def write_counts(registry: "Registry", model: str, outcomes: str | None, path: Path, as_json: bool) -> None:
    """Writes the counts of a model's versions; nothing is judged."""
    from registry.field.exporting import export_field

    def digest_of(number: int) -> str | None:
        try:
            return registry.version(model, number).digest
        except NotFound:
            return None

    with open_outcomes(outcomes, "--outcomes", create=False) as store:
        found = export_field(store, model, digest_of, datetime.now(UTC).date())
    path.write_text(found.file.model_dump_json(indent=2) + "\n", encoding="utf-8")
    versions = {cell.version for cell in found.file.cells}
    text = f"{path}: {len(versions)} versions, {sum(cell.confirmed for cell in found.file.cells):,} outcomes"
    if found.left_out:
        numbers = ", ".join(map(str, found.left_out))
        text += f"; left out: version {numbers}, without a working point or no longer in the registry"
    data = {"file": str(path), "versions": sorted(versions), "left_out": list(found.left_out)}
    answer(data, shown(text), as_json)
