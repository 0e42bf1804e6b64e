"""`dermfed-serve`: the diagnosis service on a port, with whatever the registry holds."""

import os
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import platformdirs
import typer

from dermfed.own_names import refuse_foreign
from registry.errors import RegistryError

EXAMPLES = """Examples:

\b
  dermfed-serve
  dermfed-serve --port 8080 --workers 4
  dermfed-serve --host localhost
  dermfed-serve --url sqlite:////srv/dermfed/registry.db --store /srv/dermfed/store
  curl --data-binary @lesion.jpg -H 'Content-Type: image/jpeg' 'localhost:3000/v1/diagnoses?skin_tone=5'
"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 3000,
    host: Annotated[str, typer.Option(help="The address to listen on, or its name.")] = "127.0.0.1",
    workers: Annotated[
        int,
        typer.Option(min=1, envvar="DERMFED_SERVE_WORKERS", help="Processes; each holds the models once."),
    ] = 1,
    url: Annotated[str | None, typer.Option(help="The registry; else DERMFED_REGISTRY_URL.")] = None,
    store: Annotated[str | None, typer.Option(help="Its store; else DERMFED_STORE.")] = None,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Serve what `production` points to in the registry; promotions are picked up without a restart.

    Without API keys in the registry it answers this machine alone: `dermfed-registry keys add NAME`.
    """
    if show_version:
        print(version("dermfed"))
        return
    refuse_foreign(Path.cwd())
    from registry.attestation import trust_in
    from registry.registry import Registry
    from serving.inference.device import Device, DeviceUnusable
    from serving.server import COUNTS, listening_address
    from serving.server import serve as serve_workers
    from serving.settings import SettingsError, read_settings, variable_of

    try:
        settings = read_settings()
        Device.of(settings).require_provider()
        trust_in(settings.trusted_keys)
        address = listening_address(host, port)
        # A worker that cannot open it would end, and leave a port on which nobody answers.
        with Registry.open(url, store, identity=settings.registry_id) as registry:
            identity = registry.identity()
        if settings.outcomes_url is not None:
            _try_outcomes(settings.outcomes_url)
    except (SettingsError, DeviceUnusable, ValueError, RegistryError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    given = {"DERMFED_REGISTRY_URL": url, "DERMFED_STORE": store, "DERMFED_SERVE_WORKERS": str(workers)}
    # A worker that is started again must not take another registry for it, nor make an empty one.
    given[variable_of("registry_id")] = identity or None
    os.environ.update({name: value for name, value in given.items() if value is not None})
    os.environ.setdefault(COUNTS, str(counts_folder(host, port)))
    serve_workers(address, port, workers, settings.header_seconds, settings.drain_seconds)


def _try_outcomes(url: str) -> None:
    """Opens the database of outcomes; where it is down, answers are given all the same and wait to be kept.

    Raises:
        InvalidName, OtherSchema: it never can be opened.
    """
    from registry.errors import DatabaseError, OtherSchema
    from registry.outcomes.store import OutcomeStore

    try:
        OutcomeStore.open(url).close()
    except OtherSchema:
        raise
    except DatabaseError as error:
        print(f"answers wait to be kept for their outcomes: {error}", file=sys.stderr)


def counts_folder(host: str, port: int) -> Path:
    """Where the workers count together: a folder for each service, emptied when it starts."""
    if bentoml := os.environ.get("BENTOML_HOME"):
        return Path(bentoml) / "prometheus_multiproc_dir"  # as before, when the service was BentoML's
    name = f"{re.sub(r'[^0-9A-Za-z.-]', '_', host)}-{port}"
    return Path(platformdirs.user_cache_dir("dermfed")) / "service" / name / "counts"


def main() -> None:
    """Run the command."""
    app()
