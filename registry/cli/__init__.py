"""`dermfed-registry`: the command line.

- `app`: the application, and the commands of adding and verification.
- `shown`, `releases`, `taking_back`, `labels`: what there is; promoting; stopping and withdrawing; tags.
- `archive`, `audit`, `card`, `diff`, `fetch`, `garbage`, `gates`, `keys`, `sign`: one command or group each.
- `field`: how versions do in the field; `outcomes`: the command `dermfed-outcomes`.
- `arguments`: what several commands take; `run`: how a command ends that meets an error.
- `__main__`: `python -m registry.cli`.
- `diff_text`, `signatures`: what commands print of differences and signatures; `output`: as JSON or as text.
"""

from registry.cli.app import main

__all__ = ["main"]
