"""The adapters by name: ours, and what other packages offer in the entry-point group `dermfed.adapters`."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError

from clients.data.adapters.adapter import Adapter
from clients.data.adapters.csv_table import CsvTable
from clients.data.adapters.derm7pt import Derm7pt
from clients.data.adapters.fitzpatrick17k import Fitzpatrick17k
from clients.data.adapters.ham10000 import Ham10000
from clients.data.adapters.image_folder import ImageFolder
from clients.data.adapters.isic2019 import Isic2019
from clients.data.adapters.isic2020 import Isic2020
from clients.data.adapters.medmnist import MedMnist
from clients.data.adapters.milk10k import Milk10k
from clients.data.adapters.pad_ufes_20 import PadUfes20
from clients.data.adapters.scin import Scin
from clients.data.adapters.synthetic import Synthetic
from clients.data.errors import AdapterError
from registry.bundle.nearest import nearest

GROUP = "dermfed.adapters"

OURS: Mapping[str, type[Adapter]] = {
    "csv": CsvTable,
    "derm7pt": Derm7pt,
    "fitzpatrick17k": Fitzpatrick17k,
    "ham10000": Ham10000,
    "image-folder": ImageFolder,
    "isic2019": Isic2019,
    "isic2020": Isic2020,
    "medmnist": MedMnist,
    "milk10k": Milk10k,
    "pad-ufes-20": PadUfes20,
    "scin": Scin,
    "synthetic": Synthetic,
}


def adapter_names() -> list[str]:
    """The names of all adapters that are installed."""
    return sorted({*OURS, *entry_points(group=GROUP).names})


def find_adapter(name: str) -> type[Adapter]:
    """The adapter called `name`; ours cannot be replaced by another package's.

    Raises:
        AdapterError: no such adapter, or what a package offers under the name is none.
    """
    if name in OURS:
        return OURS[name]
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        raise AdapterError(f"there is no adapter {name!r}; {nearest(name, adapter_names())}")
    adapter = found[0].load()
    if not (isinstance(adapter, type) and issubclass(adapter, Adapter)):
        raise AdapterError(f"adapter {name!r} ({found[0].value}) is no subclass of {Adapter.__qualname__}")
    return adapter


def make_adapter(name: str, options: Mapping[str, Any]) -> Adapter:
    """The adapter called `name` with `options`.

    Raises:
        AdapterError: no such adapter, or options that it does not take.
    """
    kind = find_adapter(name)
    try:
        return kind.model_validate({"name": name, **options})
    except ValidationError as error:
        wrong = [": ".join((*map(str, item["loc"]), item["msg"])) for item in error.errors()]
        raise AdapterError(f"options of adapter {name!r}: {'; '.join(wrong)}") from error
