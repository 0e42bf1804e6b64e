"""Start FLARE's program of a node: `python -m clients.federation.flare PARENT PROGRAM ARGUMENTS`.

It ends when the command that started it ends, however that was: started again, a node would otherwise be
there twice, and a coordinator would find its port taken.
"""

import runpy
import sys

from dermfed.own_names import refuse_foreign

if __name__ == "__main__":
    refuse_foreign()

from clients.federation.processes import end_with_parent


def main() -> None:
    """Watch the parent process, and run FLARE's program in this one."""
    _, parent, program, *arguments = sys.argv
    end_with_parent(int(parent))
    sys.argv = [program, *arguments]
    runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
