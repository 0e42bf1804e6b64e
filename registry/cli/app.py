"""The console script `dermfed-registry`, whose commands are registered in the order of the imports below."""

from typing import Annotated

import typer

# isort: off
from registry.cli import versions, releases, audit, outcomes, people
from registry.cli.common import ShowVersion, app, option, run

__all__ = ["app", "audit", "main", "outcomes", "people", "releases", "versions"]


@app.callback()
def dermfed_registry(
    context: typer.Context,
    url: Annotated[
        str | None,
        option(
            "URL",
            "The database, sqlite:///path/registry.db or postgresql://user@host/name. By default "
            "DERMFED_REGISTRY_URL or your own.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        option(
            "URI",
            "The models: a folder, or an address such as s3://bucket/models. By default DERMFED_STORE "
            "or your own.",
        ),
    ] = None,
    _version: ShowVersion = False,
) -> None:
    """Versions of models, which of them answer, and who decided so.

    \b
    From a training run to production, with a global model and personalized ones:
      dermfed-registry add runs/first/bundles/*
      dermfed-registry list
      dermfed-registry gates check demo 1 2 3 4 --to production
      dermfed-registry promote demo 1 2 3 4 --to production --reason "first release"
      dermfed-registry show demo
    Later, a better model for one subgroup, version 5; the other versions stay as they are:
      dermfed-registry promote demo 5 --to production
    And back:
      dermfed-registry rollback demo --alias production --reason "complaints from the ward"

    Bundles become versions, numbered for each model. A release is one global version and at most one for
    each subgroup of skin tones; an alias such as production points to one release.

    Exit codes: 0 done; 1 refused (a gate or another rule says no, or verify found something); 2 wrong use
    or bad input.
    """  # noqa: D301 - \b keeps the lines of the examples
    context.obj = (url, store)


def main() -> None:
    """Run `dermfed-registry` and exit with its code."""
    run(app)


if __name__ == "__main__":
    main()
