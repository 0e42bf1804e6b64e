import inspect
import re

import pytest

from registry import errors

CLASSES = {
    name: error for name, error in inspect.getmembers(errors, inspect.isclass) if issubclass(error, Exception)
}
REFUSALS = {
    "Refused",
    "AliasMoved",
    "ApprovalsMissing",
    "GateRefusal",
    "ReleaseRefused",
    "NothingToApprove",
    "NothingToRollBack",
    "KeyEnded",
    "AlarmClosed",
    "PersonRefused",
    "VersionWithdrawn",
    "SignatureRefused",
    "ArchiveRefused",
    "BundleRefused",
}


def test_the_tree_in_the_docstring_is_the_tree():
    drawn, parents = {}, {}
    for line in errors.__doc__.splitlines():
        if found := re.match(r"([│├└─\s]*)([A-Z]\w+)(\s{2,}|$)", line):
            depth, name = len(found[1]) // 4, found[2]
            parents[depth] = name
            drawn[name] = parents[depth - 1] if depth else "Exception"
    assert drawn == {name: error.__bases__[0].__name__ for name, error in CLASSES.items()}


@pytest.mark.parametrize("error", CLASSES.values(), ids=CLASSES)
def test_every_error_says_what_it_is_and_how_a_command_ends(error):
    assert error.__doc__
    assert issubclass(error, errors.RegistryError)
    assert error.exit_code == (1 if error.__name__ in REFUSALS else 2)
