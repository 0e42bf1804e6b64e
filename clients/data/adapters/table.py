"""Adapters: ways from a folder to a manifest. The table of what a job may name."""

from collections.abc import Mapping
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
from registry.bundle.errors import PartError
from registry.bundle.plugins import PartTable
from registry.bundle.text import nearest

ADAPTERS: PartTable[Adapter] = PartTable(
    "adapter",
    CsvTable,
    Derm7pt,
    Fitzpatrick17k,
    Ham10000,
    ImageFolder,
    Isic2019,
    Isic2020,
    MedMnist,
    Milk10k,
    PadUfes20,
    Scin,
    Synthetic,
    base=Adapter,
)


def adapter_names() -> list[str]:
    """The names of all adapters that are installed."""
    return sorted(ADAPTERS.names)


def find_adapter(name: str) -> type[Adapter]:
    """The adapter called `name`; ours cannot be replaced by another package's.

    Raises:
        AdapterError: no such adapter, or what a package offers under the name cannot be used.
    """
    if name not in ADAPTERS.names:
        raise AdapterError(f"there is no adapter {name!r}; {nearest(name, adapter_names())}")
    try:
        return ADAPTERS.find(name)
    except PartError as error:
        raise AdapterError(str(error)) from error


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
