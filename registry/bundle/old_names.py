"""Names of before: whoever still imports a module that moved gets what it is now, with a warning.

A module that moved is found by a finder on `sys.meta_path`, so that it costs nothing until somebody imports
it. The finder comes first there: a folder that an older checkout left behind would be taken for the module.
Where a package has the module's name now, the package hands on what the module had.

Every use warns with a `DeprecationWarning` at the line that imports; it tells the new name, and the release
in which the old one goes.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any
from warnings import warn

GOES_IN = "0.2.0"
"""The release in which names of before go."""


class OldModules(MetaPathFinder, Loader):
    """Finds modules that moved, and those that moved along with a package.

    Args:
        moved: the new name of each module by its old one.
        renamed: by the old module's name, its attributes that have another name now.
    """

    def __init__(
        self, moved: Mapping[str, str], renamed: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        self._moved = moved
        self._renamed = renamed or {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module of this old name is; None where it is none."""
        new = self._new_name(fullname)
        if new is None or (fullname not in self._moved and find_spec(new) is None):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that stands for the new one."""
        return _OldModule(spec.name, str(self._new_name(spec.name)), self._renamed.get(spec.name, {}))

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: what it stands for is imported when it is used."""

    def _new_name(self, name: str) -> str | None:
        package, _, rest = name.rpartition(".")
        if name in self._moved:
            return self._moved[name]
        above = self._new_name(package) if package else None
        return None if above is None else f"{above}.{rest}"


class _OldModule(ModuleType):
    """A module under its old name: each attribute is the new module's."""

    def __init__(self, name: str, new: str, renamed: Mapping[str, str]) -> None:
        super().__init__(name)
        self._new = new
        self._renamed = renamed

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":  # what looks through all modules is to find nothing
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return _handed_on(self.__name__, name, self._new, self._renamed.get(name, name))


def hand_on(package: str, names: Mapping[str, str]) -> None:
    """Let a package hand on what the module of its name had before.

    Args:
        package: its name.
        names: by each name that it hands on, the module that has it now.
    """

    def handed_on(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return _handed_on(package, name, names[name], name)

    # Not as a function of the package's own file, which would tell a type checker that it has any name.
    vars(sys.modules[package])["__getattr__"] = handed_on


def _handed_on(old: str, name: str, module: str, new: str) -> Any:
    found = getattr(import_module(module), new)
    warn(
        f"{old}.{name} is {module}.{new} now; the old name goes in {GOES_IN}",
        DeprecationWarning,
        stacklevel=3,
    )
    return found
