"""A run over a federation while its machines, its network and its people do their worst.

A server and four hospitals as processes of their own, with certificates, over loopback; every hospital, and
whoever sends the job, behind a cable that can be cut. A schedule drawn from a seed has each kind of
disturbance at least once (`loopback/disturbances.py`): processes killed and machines without power, nodes
that stand still for longer than `engine.network.heartbeat_timeout`, connections reset, cut and stalled in one
direction or in both, the coordinator without power three times, `run.py` killed and resumed.

The run must end by itself. Every round must tell of everybody that was asked: an answer, or a reason. And the
weights must be, to the last byte, those of an undisturbed run on one machine with the same answers: with
`--quorum 0` everybody answers every round; with `--quorum 3` rounds go on without a site, and the other run
leaves out the same sites in the same rounds. Exits 1 where any of this does not hold.
"""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, Any

import typer
import yaml
from loopback.federated import ADMIN, Federated
from loopback.replay import replay
from loopback.schedule import Done, Trouble, schedule
from quick import print_conditions, print_table, start
from training_runs import JOB, as_bytes, digest, stage_tensors

HOSPITALS = {"north": 150, "south": 110, "east": 130, "west": 90}  # pictures of each
SILENCE = 6.0
SHOWN = 3  # lines of what run.py said, for each disturbance


def job_of(rounds: int, quorum: int, hospitals: Sequence[str]) -> dict[str, Any]:
    """The small job of the other benchmarks, of these hospitals; normalisation and optimizers stay there."""
    federate = {
        **JOB["stages"][0],
        "rounds": rounds,
        "sync": {"name": "except", "groups": ["norm"]},
    }
    federate["objective"] = {
        **federate["objective"],
        "optimizer": {"name": "adam", "lr": 1e-3, "state": "keep"},
    }
    engine: dict[str, Any] = {
        **JOB["engine"],
        "network": {"heartbeat_timeout": SILENCE, "deadline": 600},
    }
    if quorum:
        engine["min_clients"] = quorum
    return {
        **JOB,
        "name": "chaos",
        "data": {
            "manifest": [f"{name}.csv" for name in hospitals],
            "label_map": "malignancy",
            "image_size": 32,
            "subgroups": JOB["data"]["subgroups"],
            "clients": {"by": "manifest"},
        },
        "engine": engine,
        # On one machine counts would travel in the clear. Under masks embeddings are whole numbers, and what
        # is fitted to them differs in its last digits.
        "privacy": {**JOB.get("privacy", {}), "counts": {"masks": True}},
        "stages": [federate, *JOB["stages"][1:]],
    }


def in_order(lines: Sequence[Mapping[str, Any]], rounds: int) -> list[str]:
    """What is wrong with a log: rounds that are missing or told twice, and sites that are nowhere."""
    told = [line["round"] for line in lines if line["stage"].endswith("federate")]
    wrong = [] if told == [*range(1, rounds + 1)] else [f"the rounds told of are {told}"]
    for line in lines:
        failed = {failure["client"] for failure in line["failed"] if failure["reason"]}
        silent = set(line["asked"]) - set(line["answered"]) - failed
        if silent:
            wrong.append(f"{line['stage']} {line['round']}: nothing of {', '.join(sorted(silent))}")
    return wrong


def rows(done: Sequence[Done], said: Sequence[tuple[float, str]], began: float) -> list[tuple[str, ...]]:
    """The table: what was done, and what was said before the next."""
    found = []
    for place, each in enumerate(done):
        end = done[place + 1].at if place + 1 < len(done) else float("inf")
        heard = [line for when, line in said if each.at <= when < end]
        notes = [line for line in heard if "federate " not in line and line.strip()][:SHOWN]
        length = f"{each.what.seconds:.0f} s" if each.what.kind.undo else "an instant"
        found.append(
            (
                f"{each.at - began:.0f} s",
                str(each.rounds),
                each.what.whom,
                each.what.kind.name,
                length,
                "; ".join(note.split(", FLARE job")[0][:160] for note in notes) or "nothing to tell",
            )
        )
    return found


def main(
    seed: Annotated[int, typer.Option(help="Of the schedule.")] = 0,
    rounds: Annotated[int, typer.Option(help="Of the job.")] = 60,
    quorum: Annotated[int, typer.Option(help="engine.min_clients; 0 for everybody.")] = 0,
    minutes: Annotated[float, typer.Option(help="After which the run counts as one that does not end.")] = 60,
    keep: Annotated[Path | None, typer.Option(help="Where to keep kits and logs.")] = None,
    disturbances: Annotated[int | None, typer.Option(help="How many at most; by default all.")] = None,
) -> None:
    """Disturb a run by a schedule, and compare what it leaves with an undisturbed one."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    job = job_of(rounds, quorum, list(HOSPITALS))
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job, sort_keys=False))
    net = Federated(folder, HOSPITALS, cables=True)
    plan = schedule(net.hospitals, SILENCE, rounds, seed)[:disturbances]
    print_conditions(
        f"Chaos, seed {seed}",
        {
            "federation": f"a server and {len(HOSPITALS)} hospitals, mTLS over loopback, each behind a cable",
            "job": f"{rounds} rounds, then {', '.join(stage['stage'] for stage in job['stages'][1:])}",
            "answers that a round needs": quorum or "everybody's",
            "heartbeat_timeout": f"{SILENCE:g} s",
            "disturbances": len(plan),
        },
    )
    net.start_all()
    began = monotonic()

    def say(text: str) -> None:
        typer.echo(f"{monotonic() - began:7.1f}  {text}", err=True)

    try:
        net.send(path, folder / "there")
        trouble = Trouble(net, plan, lambda: len(net.metrics_log("chaos")), say)
        ended = lambda: net.nodes[ADMIN].poll() is not None and ADMIN not in trouble.busy  # noqa: E731
        trouble.make(ended)
        while not ended():
            if monotonic() - began > 60 * minutes:
                raise SystemExit(f"after {minutes:g} minutes the run has not ended: {net.said[-5:]}")
            sleep(1)
        seconds = monotonic() - began
        code = net.nodes[ADMIN].wait()
    finally:
        net.stop()
        if keep is not None:
            shutil.copytree(folder, keep, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        (folder / "said.log").write_text("\n".join(f"{at - began:7.1f} {line}" for at, line in net.said))
    print_table(
        ("after", "rounds done", "whom", "what", "for", "run.py said"), rows(trouble.done, net.said, began)
    )
    if code:
        raise SystemExit(f"run.py ended with {code}: {net.said[-5:]}")
    verdict(net, folder, path, rounds, seconds, len(plan) - len(trouble.done))


def left(out: Path) -> dict[str, str]:
    """What a run left, as digests; a bundle's lineage alone tells hospitals' pictures from one machine's."""
    bundles = sorted((out / "bundles").glob("*/bundle.json"))
    told = [{**json.loads(path.read_text()), "lineage": None} for path in bundles]
    return {
        "weights": digest(stage_tensors(out)),
        "models": digest(path.with_name("model.onnx").read_bytes() for path in bundles),
        "figures": digest([as_bytes(told)]),
    }


def verdict(net: Federated, folder: Path, job: Path, rounds: int, seconds: float, undone: int) -> None:
    """Compare, and say so; ends the command where anything is not as it must be."""
    there = net.results("chaos")
    lines = [json.loads(line) for line in (there / "metrics.jsonl").read_text().splitlines()]
    wrong = in_order(lines, rounds)
    if undone:
        wrong.append(f"{undone} disturbances were not done, since the run had ended")
    replay(job, folder / "here", folder / "cache", lines)
    ours, theirs = left(there), left(folder / "here")
    differ = [name for name in ours if ours[name] != theirs[name]]
    wrong += [f"{name} differ from the undisturbed run's" for name in differ]
    without = sum(len(line["asked"]) - len(line["answered"]) for line in lines)
    record = json.loads((folder / "there" / "federated.json").read_text())
    print(f"The run ended by itself after {seconds:.0f} s; its job was sent {record['sent']} times.")
    print(f"{len(lines)} rounds are told of; {without} answers are missing in them, each with a reason.")
    for name in ours:
        print(f"{name}: {ours[name]} there, {theirs[name]} on one machine")
    if wrong:
        raise SystemExit("WRONG: " + "; ".join(wrong))
    print("The same to the last byte.")
    shutil.rmtree(folder)


if __name__ == "__main__":
    start(main, "--rounds 6 --disturbances 2")
