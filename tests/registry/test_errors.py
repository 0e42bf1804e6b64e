"""The exceptions of the registry and of bundles: the trees that their docstrings draw, and exit codes."""

import inspect
import re

import pytest

from registry import errors
from registry.bundle import errors as of_bundles

TREES = {module: dict(inspect.getmembers(module, inspect.isclass)) for module in (errors, of_bundles)}


@pytest.mark.parametrize("module", TREES, ids=lambda module: module.__name__)
def test_the_tree_in_the_docstring_is_the_tree(module):
    drawn, parents = {}, {}
    for line in module.__doc__.splitlines():
        if found := re.match(r"([│├└─\s]*)([A-Z]\w+)(\s{2,}|$)", line):
            depth, name = len(found[1]) // 4, found[2]
            parents[depth] = name
            drawn[name] = parents[depth - 1] if depth else "Exception"
    bases = {
        name: [base for base in of.__bases__ if base is not ValueError] for name, of in TREES[module].items()
    }
    assert drawn == {name: of[0].__name__ for name, of in bases.items()}
    assert all(one.__doc__ for one in TREES[module].values())


@pytest.mark.parametrize("error", TREES[errors].values(), ids=TREES[errors])
def test_a_command_ends_with_1_where_a_rule_says_no(error):
    assert error.exit_code == (1 if issubclass(error, errors.Refused) else 2)


def test_every_error_has_the_base_of_its_package():
    assert all(issubclass(one, errors.RegistryError) for one in TREES[errors].values())
    assert all(issubclass(one, of_bundles.BundleError) for one in TREES[of_bundles].values())
