"""The keys of a job, as `dermfed-train --schema` prints them, and those that `job_keys.yaml` lists.

A key stands in a block: `data.clients` has the keys `by` and `count`. Where a block is of one of several
kinds, the kind ends its name: `aggregator.fedavg`. Blocks that stand in several places, such as `objective`,
are named without them.

`python -m tests.contract.job_keys` prints how the list and the tree differ.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

LIST = Path(__file__).with_suffix(".yaml")
SHARED = ("objective", "optimizer", "schedule", "augment", "sync", "exchange", "aggregator")
KINDS = ("stage", "name", "kind")  # the keys whose one value says of which kind a block is

Keys = frozenset[str]  # each with its block: `data.clients.by`


def listed(part: str) -> Keys:
    """The keys of a part of the list, `kept` or `removed`.

    `objective.*` has the keys that all blocks `objective.KIND` of the same part have.
    """
    blocks: Mapping[str, str] = yaml.safe_load(LIST.read_text())[part]
    return frozenset(key for block, names in blocks.items() for key in _keys(block, names.split(), blocks))


def _keys(block: str, names: list[str], blocks: Mapping[str, str]) -> Iterator[str]:
    of = [block]
    if block.endswith(".*"):
        of = [each for each in blocks if each.rpartition(".")[0] == block[:-2] and each != block]
    yield from (f"{each}.{name}".removeprefix("job.") for each in of for name in names)


def keys_of(schema: Mapping[str, Any]) -> Keys:
    """All keys that a JSON Schema of a job allows."""
    return frozenset(_walk(schema, "", schema["$defs"], set()))


def _walk(
    schema: Mapping[str, Any], block: str, defined: Mapping[str, Any], seen: set[tuple[str, str]]
) -> Iterator[str]:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if (name, block) not in seen:
            seen.add((name, block))
            yield from _walk(defined[name], block, defined, seen)
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from _walk(schema[inner], block, defined, seen)
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _walk(choice, block, defined, seen)
    properties = schema.get("properties", {})
    kinds = [properties[key]["const"] for key in KINDS if "const" in properties.get(key, {})]
    here = ".".join([part for part in (block, *kinds[:1]) if part])
    for key, value in properties.items():
        path = f"{here}.{key}" if here else key
        yield path
        yield from _walk(value, key if key in SHARED else path, defined, seen)


def differences(found: Keys) -> list[str]:
    """What the list says of the keys that were found, a line each; none where it is right."""
    kept, removed = listed("kept"), listed("removed")
    return [
        *(f"{key} is kept, and no key of a job" for key in sorted(kept - found)),
        *(f"{key} is a key of a job, and not in the list" for key in sorted(found - kept - removed)),
        *(f"{key} is both kept and removed" for key in sorted(kept & removed)),
    ]


def main() -> int:
    """Print the differences, and how many keys there are."""
    printed = subprocess.run(["dermfed-train", "--schema"], capture_output=True, text=True, check=True)
    found = keys_of(json.loads(printed.stdout))
    lines = differences(found)
    gone = listed("removed") - found
    print(
        *lines, f"{len(found)} keys; {len(listed('kept'))} are kept; removed are gone: {len(gone)}", sep="\n"
    )
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
