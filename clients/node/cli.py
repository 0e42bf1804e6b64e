"""`dermfed-node`: make the kits of a federation, check a node, and run it."""

import json
import re
import sys
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from dermfed.own_names import refuse_foreign

if __name__ == "__main__":
    refuse_foreign()

from clients.federation.errors import KitError
from clients.federation.kit import NodeSettings, open_kit
from registry.bundle.text import printable
from training.errors import TrainingError

IMPORTED = ("torch", "torchvision", "timm", "onnx", "onnxruntime", "nvflare", "cryptography")  # by jobs
REFUSED, WRONG = 1, 2  # exit codes: not fit to take part; wrong use or bad input
HELP = """A hospital's federated node: kits, checks, and taking part.

\b
Examples:
  dermfed-node request north --out north-key
  dermfed-node provision federation.yaml --out kits
  dermfed-node renew federation.yaml --out kits
  dermfed-node check --kit kits/north --data manifest.csv
  dermfed-node journal --kit kits/north --last 50
  dermfed-node disable north --kit kits/admin
  dermfed-node enable north --kit kits/admin
  dermfed-node start --kit kits/server
  dermfed-node start --kit kits/north --data manifest.csv
"""
EPILOG = "Exit codes: 0 done; 1 the node is not fit to take part; 2 wrong use or bad input."

app = typer.Typer(
    name="dermfed-node",
    add_completion=False,
    rich_markup_mode=None,
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
)
console = Console(stderr=True)
KitOption = Annotated[Path, typer.Option("--kit", metavar="DIR", help="The kit of this node.")]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="MANIFEST", help="The manifest of this node's pictures.", dir_okay=False),
]


def require_packages() -> None:
    """Look whether what jobs import is installed, without importing it.

    Raises:
        KitError: naming those that are missing, and how they are installed.
    """
    missing = [name for name in IMPORTED if find_spec(name) is None]
    if missing:
        raise KitError(
            f"{', '.join(missing)} cannot be imported, and no job could run here; "
            "pip install 'dermfed[node]', or 'dermfed[node-gpu]' on an NVIDIA GPU"
        )


def say(text: str) -> None:
    """Print one line to standard error."""
    console.print(printable(text), highlight=False, markup=False, soft_wrap=True)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"dermfed-node {version('dermfed')}")
        raise typer.Exit


@app.callback()
def dermfed_node(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """See HELP."""


@app.command("provision", epilog="Example: dermfed-node provision federation.yaml --out kits")
def provision_kits(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.yaml", help="Who is in.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the kits go.")],
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Make a kit for the server, each hospital and the admin; those that are there stay as they are."""
    from clients.federation.kit import read_federation
    from clients.federation.provision import provision

    made = provision(read_federation(federation), federation.absolute().parent, out)
    if as_json:
        typer.echo(json.dumps({"kits": [str(path) for path in made]}))
        return
    for path in made:
        typer.echo(f"{path}")
    typer.echo(
        f"{len(made)} kits made. Give each to its owner alone, by a way that you trust: it holds a private "
        f"key. {out / 'authority'} stays here."
    )


@app.command("request", epilog="Example: dermfed-node request north --out north-key")
def request(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The hospital's name in the federation.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the key and the request go.")],
) -> None:
    """Make this hospital's own key, which never leaves it, and a request that the coordinator signs."""
    from clients.federation.certificates import make_request
    from clients.federation.kit import NAME, PRIVATE

    if not re.fullmatch(NAME, name):
        raise KitError(f"{name!r} is no name in a federation: small letters, digits and -")
    if (out / "client.key").exists():
        raise KitError(f"{out} holds a key already; name another folder")
    out.mkdir(parents=True, exist_ok=True)
    out.chmod(PRIVATE)
    key, asked = make_request(name)
    (out / "client.key").touch(0o600)
    (out / "client.key").write_bytes(key)
    (out / f"{name}.csr").write_bytes(asked)
    typer.echo(
        f"{out / 'client.key'} stays here, for startup/ of the kit that will come. Send "
        f"{out / f'{name}.csr'} to the coordinator; it is no secret, but tell its sha256 by another way: "
        f"{sha256(asked).hexdigest()}"
    )


@app.command("renew", epilog="Example: dermfed-node renew federation.yaml --out kits")
def renew_certificates(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.yaml", help="Who is in.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the kits are.")],
) -> None:
    """Make certificates for another year, for the keys that are there; old ones are good until they end."""
    from clients.federation.kit import read_federation
    from clients.federation.provision import renew

    for path in renew(read_federation(federation), federation.absolute().parent, out):
        typer.echo(f"{path}")
    typer.echo(
        "Give each its two files, which are no secret; they replace those in startup/ of its kit, and the "
        "node is started again."
    )


@app.command(
    "check", epilog="Example: dermfed-node check --kit kits/north --data manifest.csv --job job.yaml"
)
def check(
    kit: KitOption,
    data: DataOption = None,
    job: Annotated[
        Path | None,
        typer.Option(
            "--job", metavar="JOB.yaml", help="The job to come, or a built-in one; data are read as it asks."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Say whether this node is fit (data, disk, clock, versions, certificate …), and what will be sent."""
    require_packages()
    from clients.data.check import check_manifest
    from clients.data.picture_files import cache_folder
    from clients.federation.kit import private_files
    from clients.node.check import CheckResult, check_node
    from training.jobs.job import read_job

    opened = open_kit(kit, "server", "hospital")
    with private_files():  # the cache of decoded pictures is made here, too
        found = [*check_node(opened, read_job(job) if job else None, data, cache_folder())]
    if data is not None and job is None:
        problems = check_manifest(data.absolute()).problems
        listed = "; ".join(f"{each.kind}: {each.text}" for each in problems[:5])
        found.append(CheckResult("manifest", not problems, listed or "every picture can be read"))
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found]))
    else:
        for each in found:
            typer.echo(f"{'ok ' if each.fit else 'BAD'} {each.about}: {each.text}")
    if not all(each.fit for each in found):
        raise typer.Exit(REFUSED)


@app.command("journal", epilog="Example: dermfed-node journal --kit kits/north --last 50")
def show_journal(
    kit: KitOption,
    run: Annotated[str | None, typer.Option("--run", metavar="NAME", help="Only of this run.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="DATE", help="Only from this day on (2026-03-02), UTC.")
    ] = None,
    last: Annotated[int | None, typer.Option("--last", min=1, help="Only so many lines, the newest.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """List every message that left this hospital, and whether a line of the list was changed or is gone."""
    from clients.node.journal import FOLDER, chosen, lines_of, totals

    folder = open_kit(kit, "hospital").path / FOLDER
    entries, wrong = chosen(folder, run=run, since=since, last=last)
    if as_json:
        typer.echo(json.dumps({"entries": [each.model_dump() for each in entries], "wrong": wrong}))
    else:
        for line in (*lines_of(entries), totals(entries)):
            typer.echo(printable(line))
    if wrong:
        say(f"BAD {wrong}")
        raise typer.Exit(REFUSED)


HospitalArgument = Annotated[str, typer.Argument(metavar="NAME", help="The hospital's name.")]
AdminKitOption = Annotated[Path, typer.Option("--kit", metavar="DIR", help="The admin's kit.")]
LeftOption = Annotated[
    bool, typer.Option("--left", help="It was taken out of the federation file; take its name as it is.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]


@app.command("disable", epilog="Example: dermfed-node disable north --kit kits/admin")
def disable(
    name: HospitalArgument, kit: AdminKitOption, left: LeftOption = False, as_json: JsonOption = False
) -> None:
    """Have the coordinator let a hospital in no more: its certificates are refused until it is enabled."""
    _change_status(name, kit, "disable", left, as_json)


@app.command("enable", epilog="Example: dermfed-node enable north --kit kits/admin")
def enable(
    name: HospitalArgument, kit: AdminKitOption, left: LeftOption = False, as_json: JsonOption = False
) -> None:
    """Have the coordinator let a hospital in again: every certificate in its name, a stolen one too."""
    _change_status(name, kit, "enable", left, as_json)


def _change_status(
    name: str, kit: Path, how: Literal["disable", "enable"], left: bool, as_json: bool
) -> None:
    from clients.federation.admin_client import change_site_status, in_words

    status = change_site_status(open_kit(kit, "admin"), name, how, left=left)
    typer.echo(json.dumps(asdict(status)) if as_json else in_words(status))


@app.command("start", epilog="Example: dermfed-node start --kit kits/north --data manifest.csv")
def start(kit: KitOption, data: DataOption = None) -> None:
    """Take part until Ctrl-C or SIGTERM; logs go to the kit. The same command at the coordinator."""
    refuse_foreign(Path.cwd())  # FLARE's processes look there first
    require_packages()  # before anything of ours imports them
    from clients.federation.processes import NodeProcess
    from clients.federation.provision import write_site_files
    from clients.node.policy import POLICY, read_policy

    opened = open_kit(kit, "server", "hospital")
    if data is not None and not data.is_file():
        raise KitError(f"there is no manifest {data}; name the file that `dermfed-data` wrote")
    if data is None and opened.facts.role == "hospital":
        raise KitError(f"{opened.facts.name} needs its pictures: name their manifest with --data")
    opened.require_key()
    if opened.facts.role == "hospital":
        read_policy(opened.path / POLICY)
    write_site_files(opened.path, opened.facts)
    opened.keep_settings(NodeSettings(data=None if data is None else str(data.absolute())))
    address = opened.federation.coordinator
    console.print(
        f"{opened.facts.name} takes part in {opened.federation.name} at {address.host}:{address.port}; "
        f"log: {opened.log}. Ctrl-C to stop",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    raise typer.Exit(NodeProcess(opened, say).run())


def main() -> None:
    """Run the command; errors that a user can mend become a line and an exit code."""
    try:
        app(standalone_mode=True)
    except (TrainingError, OSError) as error:
        console.print(
            printable(f"{type(error).__name__}: {error}"),
            style="red",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(WRONG)


if __name__ == "__main__":
    main()
