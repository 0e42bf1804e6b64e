import subprocess
import sys

import pytest

LIMITED = """
import resource, sys
from serving.worker import files_for
soft, hard, asked = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(files_for(asked), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "asked", "expected"),
    [
        (1024, 1024, 512, (512, 1024, 1024)),
        (256, 4096, 512, (512, 1024, 4096)),
        (256, 1000, 512, (488, 1000, 1000)),
        (64, 128, 512, (1, 128, 128)),
        (4096, 4096, 1000, (1000, 4096, 4096)),
    ],
)
def test_connections_are_never_more_than_files_may_be_open(soft, hard, asked, expected):
    given = map(str, (soft, hard, asked))
    told = subprocess.run([sys.executable, "-c", LIMITED, *given], capture_output=True, text=True, check=True)
    assert tuple(map(int, told.stdout.split())) == expected
