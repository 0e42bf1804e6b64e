"""`dermfed-registry people` and `keys`: who may do what, and keys to the service."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from registry.bundle.text import on_one_line, shown_name
from registry.cli.common import Call, Reason, argument, as_data, command, option
from registry.environment import key_password
from registry.records import ROLES, ROTATION_GRACE, SCOPES, moment
from registry.views.records import key_table, people_table

_Name = Annotated[str, argument("NAME", "As history calls them.")]
_Public = Annotated[Path, option("FILE", "Their public key in PEM.")]
_Roles = Annotated[list[str], option("ROLE", f"What they may do: {', '.join(ROLES)}.", "--role")]
_Id = Annotated[str, argument("ID", "The key's id, as `keys list` shows it.")]

_FIRST = (
    "\nfrom now on additions, approvals, promotions and the like have to be signed, and only the owner of "
    "this key can add others: make sure that its private half is kept"
)
_NO_PEOPLE = (
    "nobody yet: actors are the names that the operating system gives; make a key with "
    "`dermfed-registry people new-key`, and register yourself with `people add`"
)
_KEEP = "keep the line above, it is not shown again"


@command("people new-key", "anna.key", json=False)
def people_new_key(
    call: Call, file: Annotated[Path, argument("FILE", "Write the private key to this new file.")]
) -> None:
    """Make a key pair: the private key, for its owner alone, and FILE.pub, for others.

    With DERMFED_KEY_PASSWORD the private key is encrypted with this password. Any key of the curves P-256,
    P-384 and P-521 does as well, such as one of openssl.
    """
    from registry.signing_keys import write_key_pair

    public, fingerprint = write_key_pair(file, key_password())
    print(on_one_line(f"{file} (keep it secret) and {public}"), fingerprint, sep="\n")


@command(
    "people add",
    "anna --public anna.pub --role operator --role uploader",
    "ben --public ben.pub --role approver --key anna.key",
    signs=True,
)
def people_add(call: Call, name: _Name, public: _Public, roles: _Roles) -> None:
    """Add a person, who is known by a key from now on.

    An uploader adds, imports, tags and notes versions; an approver approves releases; an operator promotes,
    overrides gates, rolls back, stops, withdraws, sets gates, collects garbage, registers people and makes
    API keys. The first person is an operator; from then on all of this must be signed, and an operator
    signs for each further person. Compare the fingerprint with the person, by telephone or on paper.

    Where a gate set asks for approvals, a person takes as many (`people approve`). Exit code 1 if they are
    missing.
    """
    with call.registry() as registry:
        person = registry.add_person(name, public, roles=roles)
        first = len(registry.people()) == 1
    call.answer(as_data(person), people_table([person]) + (_FIRST if first else ""))


@command("people approve", "carla --public carla.pub --role approver --key ben.key", signs=True)
def people_approve(call: Call, name: _Name, public: _Public, roles: _Roles) -> None:
    """Approve a person whom an operator will add, with exactly this name, key and roles.

    Only an approval that is signed with the key of an approver counts. Compare the fingerprint with the
    person first, by telephone or on paper. Exit code 1 if you have approved it before.
    """
    with call.registry() as registry:
        call.event(registry.approve_person(name, public, roles=roles))


@command("people list", "", "--json")
def people_list(call: Call) -> None:
    """List people with the fingerprints of their keys, revoked ones too."""
    with call.registry() as registry:
        people = registry.people()
    call.answer(as_data(people), people_table(people) if people else _NO_PEOPLE)


@command("people revoke", "ben --reason 'left the ward' --key anna.key", signs=True)
def people_revoke(
    call: Call,
    who: Annotated[str, argument("PERSON", "A name, or a key's fingerprint.")],
    reason: Reason = None,
) -> None:
    """Revoke a person's key for good.

    What they signed before stays signed; approvals that were not used yet count no more.
    """
    with call.registry() as registry:
        person = registry.revoke_person(who, reason=reason)
    call.answer(as_data(person), people_table([person]))


@command(
    "keys add",
    "ward-3",
    "'dermatology app' --scope diagnose --scope read --per-minute 60",
    "prometheus --scope operate --expires 365 --json",
    signs=True,
)
def keys_add(
    call: Call,
    name: Annotated[str, argument("NAME", "Whom or what the key is for.")],
    scopes: Annotated[
        list[str] | None,
        option("SCOPE", f"What it may ask for: {', '.join(SCOPES)}. By default all.", "--scope"),
    ] = None,
    expires: Annotated[float | None, option("DAYS", "For how long it is valid; by default for ever.")] = None,
    per_minute: Annotated[
        int | None, option("N", "Requests a minute; by default what the service grants to any key.")
    ] = None,
) -> None:
    """Make a key. Its secret is printed once, and stored nowhere.

    Scopes: diagnose is sending pictures, read is seeing what is served and model cards, operate is seeing
    metrics and the operator's view.
    """
    with call.registry() as registry:
        key, secret = registry.create_key(
            name, scopes=scopes or SCOPES, expires=_time("days", expires), per_minute=per_minute
        )
    until = "" if key.expires is None else f", valid until {moment(key.expires)}"
    text = f"{secret}\nkey {key.id} for {shown_name(key.name)} ({', '.join(key.scopes)}{until}): {_KEEP}"
    call.answer({**as_data(key), "secret": secret}, text)


@command("keys list", "", "--json")
def keys_list(call: Call) -> None:
    """List keys, expired and revoked ones too."""
    with call.registry() as registry:
        keys = registry.keys()
    call.answer(as_data(keys), key_table(keys) if keys else "no key yet")


@command("keys rotate", "0123456789ab", "0123456789ab --grace 1 --json", signs=True)
def keys_rotate(
    call: Call,
    id: _Id,
    grace: Annotated[float, option("HOURS", "For how long the old key stays valid.")] = ROTATION_GRACE
    / timedelta(hours=1),
) -> None:
    """Make a key in the place of another, with a secret of its own.

    Name, scopes, rate and expiry are the old one's. Both are valid until the grace is over. The new secret is
    printed once, and stored nowhere.
    """
    with call.registry() as registry:
        done = registry.rotate_key(id, grace=_time("hours", grace) or timedelta(0))
    old, key = done.old, done.key
    made = f"{done.secret}\nkey {key.id} for {shown_name(key.name)}: {_KEEP}"
    text = f"{made}\nkey {old.id} is valid until {moment(old.expires)}"
    call.answer({"old": as_data(old), "key": {**as_data(key), "secret": done.secret}}, text)


@command("keys revoke", "0123456789ab", signs=True)
def keys_revoke(call: Call, id: _Id) -> None:
    """Revoke a key for good."""
    with call.registry() as registry:
        key = registry.revoke_key(id)
    call.answer(as_data(key), key_table([key]))


def _time(unit: str, count: float | None) -> timedelta | None:
    """So many of a unit; the longest there is, which the registry refuses, where there are too many."""
    if count is None:
        return None
    try:
        return timedelta(**{unit: count})
    except (OverflowError, ValueError):
        return timedelta.max
