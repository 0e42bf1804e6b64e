"""FLARE's own process of a node: `python -m clients.federation.flare PARENT PROGRAM ARGUMENTS`.

It ends when the command that started it ends, however that was: started again, a node would otherwise be
there twice, and a coordinator would find its port taken.
"""

import runpy
import sys

from clients.federation.orphan import end_with_parent


def main() -> None:
    """Watch the parent, and be FLARE's program."""
    _, parent, program, *arguments = sys.argv
    end_with_parent(int(parent))
    sys.argv = [program, *arguments]
    runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
