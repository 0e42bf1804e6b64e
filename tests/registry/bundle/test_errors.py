import inspect
import re

import pytest

from registry.bundle import errors

CLASSES = dict(inspect.getmembers(errors, inspect.isclass))


def test_the_tree_in_the_docstring_is_the_tree():
    drawn, parents = {}, {}
    for line in errors.__doc__.splitlines():
        if found := re.match(r"([│├└─\s]*)([A-Z]\w+)(\s{2,}|$)", line):
            depth, name = len(found[1]) // 4, found[2]
            parents[depth] = name
            drawn[name] = parents[depth - 1] if depth else "Exception"
    actual = {
        name: next(base.__name__ for base in error.__bases__ if base is not ValueError)
        for name, error in CLASSES.items()
    }
    assert drawn == actual


@pytest.mark.parametrize("error", CLASSES.values())
def test_every_error_says_what_it_is(error):
    assert error.__doc__
    assert issubclass(error, errors.BundleError)
