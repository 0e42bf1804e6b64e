"""`dermfed-registry people`: who may do what, by their keys."""

from pathlib import Path
from typing import Annotated

import typer

from registry.cli.arguments import AsJson, Reason
from registry.cli.open import Key, open_registry, open_signing
from registry.cli.output import answer, as_data
from registry.environment import key_password
from registry.records import ROLES
from registry.rendering.records import event_lines, people_table
from registry.rendering.table import printable

NEW_KEY_EXAMPLES = ("anna.key",)
ADD_EXAMPLES = (
    "anna --public anna.pub --role operator --role uploader",
    "ben --public ben.pub --role approver --key anna.key",
)
APPROVE_EXAMPLES = ("carla --public carla.pub --role approver --key ben.key",)
LIST_EXAMPLES = ("", "--json")
REVOKE_EXAMPLES = ("ben --reason 'left the ward' --key anna.key",)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="As history calls them.")]
_Public = Annotated[Path, typer.Option(metavar="FILE", help="Their public key in PEM.")]
_Roles = Annotated[
    list[str], typer.Option("--role", metavar="ROLE", help=f"What they may do: {', '.join(ROLES)}.")
]

_FIRST = (
    "\nfrom now on additions, approvals, promotions and the like have to be signed, and only the owner of "
    "this key can add others: make sure that somebody holds its private half"
)


def people_new_key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Write the private key to this new file.")],
) -> None:
    """Make a key pair: the private key, for its owner alone, and beside it FILE.pub, for others to know.

    With DERMFED_KEY_PASSWORD the private key is encrypted with this password. Any key of the curves P-256,
    P-384 and P-521 does as well, such as one of openssl.
    """
    from registry.signing.new_key import write_key_pair

    public, fingerprint = write_key_pair(file, key_password())
    print(printable(f"{file} (keep it secret) and {public}"), fingerprint, sep="\n")


def people_add(
    context: typer.Context,
    name: _Name,
    public: _Public,
    roles: _Roles,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Add a person, who is known by a key from now on.

    An uploader adds, imports, tags and notes versions; an approver approves releases; an operator promotes,
    overrides gates, goes back, stops, withdraws, sets gates, signs the head, collects garbage, registers
    people and makes API keys. The first person is an operator; from then on all of this has to be signed,
    and an operator signs for each further person. Compare the fingerprint with the person, by telephone or
    on paper.

    Where a gate set asks for approvals, a person takes as many (`people approve`). Exit code 1 if they are
    missing.
    """
    with open_signing(context, key) as registry:
        person = registry.add_person(name, public, roles=roles)
        first = len(registry.people()) == 1
    answer(as_data(person), people_table([person]) + (_FIRST if first else ""), as_json)


def people_approve(
    context: typer.Context,
    name: _Name,
    public: _Public,
    roles: _Roles,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Approve a person whom an operator will add, with exactly this name, key and roles.

    Only an approval that is signed with the key of an approver counts. Compare the fingerprint with the
    person first, by telephone or on paper. Exit code 1 if you have approved it before.
    """
    with open_signing(context, key) as registry:
        event = registry.approve_person(name, public, roles=roles)
    answer({"event": as_data(event)}, event_lines(event), as_json)


def people_list(context: typer.Context, as_json: AsJson = False) -> None:
    """List people with the fingerprints of their keys, those who were revoked too."""
    with open_registry(context) as registry:
        people = registry.people()
    nobody = (
        "nobody yet: whatever is done is done in whatever name the operating system tells; "
        "make a key with `dermfed-registry people new-key`, and yourself known with `people add`"
    )
    answer(as_data(people), people_table(people) if people else nobody, as_json)


def people_revoke(
    context: typer.Context,
    who: Annotated[str, typer.Argument(metavar="PERSON", help="A name, or a key's fingerprint.")],
    reason: Reason = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a person's key for good.

    What they signed before stays signed; approvals that were not used yet count no more.
    """
    with open_signing(context, key) as registry:
        person = registry.revoke_person(who, reason=reason)
    answer(as_data(person), people_table([person]), as_json)
