"""Sixteen writers of one registry, of whom somebody is killed all the time: is anything lost or doubled?

Each writer is a process that adds versions, signs them, promotes, rolls back, withdraws, exports, and
collects garbage of any age (`gc --older-than 0`), in an order of its own. Before each action it writes what
it is about to do into a file of its own, and afterwards what it was told. A writer drawn at random is killed
with SIGKILL and another started in its place, `kills` times. Then, with nobody writing any more:

- `verify` must find nothing: chain, tables, signatures and objects;
- every version, signature, promotion and withdrawal that a writer was told of must be there as it was told;
- no alias may point to a withdrawn version, and nobody may have promoted one after it was withdrawn;
- every exported file must be imported by an empty registry.

Ends with exit code 1 if anything is missing. `--url` names an empty database; without it SQLite is used.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from quick import start
from small_model import NAME, one_of_eight, small_bundle
from tables import print_conditions, print_table

from registry.bundle.labels import Subgroup
from registry.errors import NotFound, Refused, RegistryError
from registry.gates import GateSet
from registry.gates.threshold import MinAnswerRateGate
from registry.registry import Registry
from registry.signing.keys import KeySignatory, read_signer, read_trust, write_key_pair

WRITERS = 16
PATIENCE = 120
"""How long nothing may be written down; seconds."""
ACTIONS = ("add", "add", "add", "sign", "sign", "promote", "promote", "roll back", "withdraw", "export", "gc")


@dataclass
class Writer:
    """One process and the file in which it says what it does."""

    number: int
    process: subprocess.Popen[bytes]
    said: Path


def write(url: str, store: str, folder: Path, number: int) -> None:
    """Does one action after another until it is killed or told to end."""
    random.seed(f"{number} {os.getpid()}")
    signer, own = (
        read_signer(folder / "olga.key"),
        Subgroup(name=f"group-{number % WRITERS}", scale="ours", values=(str(number % WRITERS),)),
    )
    mine: list[int] = []
    with (
        (folder / f"{number}.jsonl").open("a") as said,
        Registry.open(url, store, signatory=KeySignatory(signer)) as registry,
    ):

        def tell(**facts: Any) -> None:
            said.write(json.dumps(facts) + "\n")
            said.flush()
            os.fsync(said.fileno())

        turn = 0
        while not (folder / "end").exists():
            turn += 1
            action = random.choice(ACTIONS) if mine else "add"
            tell(action=action, begun=True)
            try:
                told = _act(registry, action, mine, number * 100_000 + turn, own, signer, folder)
            except (NotFound, Refused) as error:  # whatever else, the writer ends badly, and is counted
                tell(action=action, refused=f"{type(error).__name__}: {error}")
                continue
            tell(action=action, **told)


def _act(
    registry: Registry, action: str, mine: list[int], seed: int, own: Subgroup, signer: Any, folder: Path
) -> dict[str, Any]:
    """One action, and what came of it."""
    if action == "add":
        versions = registry.add([one_of_eight(seed, own), one_of_eight(seed % 100_000)])
        mine.append(versions[0].number)
        return {"versions": [[one.number, one.digest] for one in versions]}
    number = mine[-1] if action in ("promote", "sign") else random.choice(mine)
    if action == "sign":
        (signature,) = registry.sign(NAME, [number], signer)
        return {"number": number, "object": signature.object}
    if action == "promote":
        event = registry.promote(NAME, [number], to="production", override_gates=True, reason="a trial")
        return {"number": number, "event": None if event is None else event.id}
    if action == "roll back":
        return {"event": registry.rollback(NAME, alias="production", reason="a trial").id}
    if action == "withdraw":
        registry.withdraw(NAME, [number], reason="a trial")
        mine.remove(number)
        return {"number": number}
    if action == "export":
        path = folder / f"{seed}.dermfed"
        exported = registry.export_release(NAME, "production", path)
        return {"file": str(path), "digest": exported.digest}
    return {"removed": len(registry.collect(older_than=timedelta(0)).files)}


@dataclass
class Told:
    """What the writers were told."""

    versions: dict[int, str] = field(default_factory=dict)
    signatures: set[tuple[int, str]] = field(default_factory=set)
    withdrawn: set[int] = field(default_factory=set)
    promotions: list[int] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    begun: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


def read_told(folder: Path) -> Told:
    """Reads what all writers wrote down; the last line of one that was killed may be half."""
    told = Told()
    for path in folder.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            try:
                facts = json.loads(line)
            except ValueError:
                continue
            if facts.get("begun"):
                told.begun[facts["action"]] += 1
                continue
            if "refused" in facts:
                told.refused[f"{facts['action']}: {facts['refused'].split(':')[0]}"] += 1
                continue
            told.done[facts["action"]] += 1
            for number, digest in facts.get("versions", ()):
                told.versions[number] = digest
            if facts["action"] == "sign":
                told.signatures.add((facts["number"], facts["object"]))
            if facts["action"] == "withdraw":
                told.withdrawn.add(facts["number"])
            if facts["action"] == "promote" and facts["event"] is not None:
                told.promotions.append(facts["event"])
            if facts["action"] == "export":
                told.files[facts["file"]] = facts["digest"]
    return told


def missing(registry: Registry, told: Told, folder: Path) -> list[str]:
    """What is not as the writers were told."""
    trust = read_trust([folder / "olga.pub"])
    found = [f"verify: {one.about}: {one.text}" for one in registry.verify(trust)]
    versions = {one.number: one for one in registry.versions(NAME)}
    if len({one.digest for one in versions.values()}) != len(versions):
        found.append("a bundle has two versions")
    for number, digest in told.versions.items():
        if number not in versions or versions[number].digest != digest:
            found.append(f"version {number} is gone or another")
    held = {(one.number, s.object) for one in versions.values() for s in registry.signatures(one)}
    found += [f"a signature of version {number} is gone" for number, _ in told.signatures - held]
    events = registry.history(NAME)
    ids = {event.id for event in events if event.kind == "promoted"}
    found += [f"promotion {one} is gone" for one in told.promotions if one not in ids]
    released = {one.number for release in registry.aliases(NAME).values() for one in release.versions}
    found += [f"version {one} is withdrawn and answers" for one in told.withdrawn & released]
    gone: set[int] = set()
    for event in events:
        if event.kind == "withdrawn":
            gone |= set(event.versions)
        elif event.kind in ("promoted", "rolled-back"):
            members = {one["number"] for one in (event.details or {}).get("members", ())}
            found += [f"event {event.id} releases version {one}, withdrawn before" for one in members & gone]
    found += [f"version {one} was withdrawn, and history does not tell it" for one in told.withdrawn - gone]
    with Registry.open(f"sqlite:///{folder / 'other.db'}", str(folder / "other")) as other:
        for path, digest in told.files.items():
            try:
                if other.import_release(Path(path)).digest != digest:
                    found.append(f"{path} is another than was told")
            except RegistryError as error:
                found.append(f"{path} cannot be imported: {error}")
    return found


def lines(folder: Path) -> int:
    """How much all writers have written down."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))


def wait_for_lines(folder: Path, enough: int) -> None:
    """Waits until the writers have written down so much."""
    began = time.monotonic()
    while lines(folder) < enough:
        if time.monotonic() - began > PATIENCE:
            raise SystemExit(f"nothing was written down for {PATIENCE} seconds: the writers have ended")
        time.sleep(0.02)


def begin(url: str, store: str, folder: Path, number: int) -> Writer:
    """Starts a writer."""
    command = [
        sys.executable,
        __file__,
        "--writer",
        str(number),
        "--url",
        url,
        "--store",
        store,
        "--folder",
        str(folder),
    ]
    return Writer(number, subprocess.Popen(command), folder / f"{number}.jsonl")


def main(
    kills: Annotated[int, typer.Option(help="How many writers are killed.")] = 240,
    url: Annotated[str | None, typer.Option(help="An empty database; by default a SQLite file.")] = None,
    store: Annotated[str | None, typer.Option(hidden=True)] = None,
    folder: Annotated[Path | None, typer.Option(hidden=True)] = None,
    writer: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Kill writers, and look whether anything is lost."""
    if writer is not None and url and store and folder:
        write(url, store, folder, writer)
        return
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        url, store = url or f"sqlite:///{place / 'registry.db'}", str(place / "store")
        said = {"writers": WRITERS, "kills": kills, "database": url.split(":")[0]}
        print_conditions("A registry under kills", said)
        write_key_pair(place / "olga.key", None)
        with Registry.open(url, store) as registry:
            registry.add_person("olga", place / "olga.pub", roles=["operator", "uploader"])
            signed = registry.signed_by(KeySignatory.read(place / "olga.key", None))
            signed.set_gates(GateSet(gates=(MinAnswerRateGate(limit=0.0),)), reason="a trial")
            signed.add([small_bundle(0)])
            signed.promote(NAME, [1], to="production", override_gates=True, reason="a trial")
        writers = {number: begin(url, store, place, number) for number in range(WRITERS)}
        following, began = WRITERS, time.monotonic()
        for _ in range(kills):
            wait_for_lines(place, lines(place) + random.randint(1, 20))
            at_work = [number for number, one in writers.items() if one.said.exists()]
            victim = writers.pop(random.choice(at_work))
            time.sleep(random.uniform(0, 0.05))  # anywhere in what it does
            victim.process.send_signal(signal.SIGKILL)
            victim.process.wait()
            writers[following] = begin(url, store, place, following)
            following += 1
        (place / "end").touch()
        for one in writers.values():
            one.process.wait()
        failed = [one.number for one in writers.values() if one.process.returncode]
        told = read_told(place)
        with Registry.open(url, store) as registry:
            found = missing(registry, told, place)
            events = len(registry.audit())
        print_table(
            ("action", "begun", "done and told"),
            [(name, told.begun[name], told.done[name]) for name in dict.fromkeys(ACTIONS)],
        )
        print(
            f"{kills} kills in {time.monotonic() - began:.0f} s, {events} events, "
            f"{len(told.versions)} versions told"
        )
        print("refused:", ", ".join(f"{name} {n}" for name, n in sorted(told.refused.items())) or "nothing")
        print(f"ended badly by themselves: {failed or 'none'}")
        print("\n".join(found[:20]) or "nothing lost, nothing doubled, every chain whole")
    if found or failed:
        raise typer.Exit(1)


if __name__ == "__main__":
    start(main, "--kills=4")
