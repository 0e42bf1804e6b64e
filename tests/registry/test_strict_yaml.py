"""What is refused of YAML that people write, and that the rest reads as ever."""

import pytest
import yaml

from registry.strict_yaml import YamlError, load_yaml


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", "lines 3 and 5: the key 'c' is there twice; keep one of them"),
        ("a: {b: 1, b: 2}", "line 1: the key 'b' is there twice; keep one of them"),
        ("- {a: 1}\n- a: 1\n  'a': 2\n", "lines 2 and 3: the key 'a' is there twice; keep one of them"),
        ("a:\n\t- b", "line 2, column 1: a tab; indent with spaces"),
        ("a: b: c", "line 1, column 5: mapping values are not allowed here"),
        (
            "a: [1\nb: 3",
            "line 2, column 2: expected ',' or ']', but got ':' (while parsing a flow sequence that",
        ),
        (
            "a: 'x\nb: 2\n",
            "line 3, column 1: found unexpected end of stream (while scanning a quoted scalar",
        ),
        ("a: 1\n---\nb: 2", "line 2, column 1: another document begins; a file holds one"),
        ("a: 1\nb: *c", "line 2, column 4: found undefined alias 'c'"),
        ("a: 1\nb: \x00", "line 2: the character '\\x00' may not be there"),
        ("born: 2024-06-31", "line 1, column 7: '2024-06-31' cannot be read (day is out of range for month)"),
        ("a: !!bool perhaps", "line 1, column 4: 'perhaps' cannot be read"),
        ("a: !!python/name:os.system x", "line 1, column 4: could not determine a constructor for the tag"),
        ("? [a]\n: 1", "line 1, column 3: found unhashable key"),
        ("country: [DE, no]", "line 1, column 15: `no` is true or false to YAML; put text in quotes"),
        ("On: 1", "line 1, column 1: `On` is true or false to YAML"),
        ("a: 010", "line 1, column 4: `010` is another number to YAML"),
        ("a: 12:30", "line 1, column 4: `12:30` is another number to YAML"),
        ("a: 12:30.5", "line 1, column 4: `12:30.5` is another number to YAML"),
        ("[" * 100_000, "values are inside one another too deeply to be read"),
        ("- " * 100_000, "values are inside one another too deeply to be read"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text, told):
    with pytest.raises(YamlError) as refused:
        load_yaml(text)
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: {b: 1}\nc: {b: 1}",
        "[{a: 1}, {a: 2}]",
        "x: &a {p: 1}\ny: &b {<<: *a, p: 2}\nz: {<<: *b, q: 1}\nw: {<<: [*a, *b]}",
        "a: 2024-06-30\nb: 1e-3\nc: True\nd: !!set {x}\n1: e\nf: 0\ng: 0x1f\nh: 'no'\ni: \"010\"\nj: -0.5",
        "a: |\n  b: 1\n  b: 2\n",
    ],
)
def test_the_rest_is_read_as_ever(text):
    assert load_yaml(text) == yaml.safe_load(text)
