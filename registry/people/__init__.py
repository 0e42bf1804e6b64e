"""People whom a registry knows by their keys, and what they signed.

- `signatory`: whoever signs an action: with a key file, or in two steps with a key that is elsewhere.
- `changes`: adding people and revoking them.
- `signed_events`: whose signature an event holds, and whether it is theirs.
- `history`: all events replayed: who could do what when, and which was signed by nobody who might.

`signatory` and `signed_events` need the extra `sign` as soon as somebody signs.
"""
