"""What FLARE alone takes of a coordinator: memory for each further site, and processor time for each byte.

No dermfed is in it but the search for leftovers. Three processes, as in a federation: FLARE's server, which
passes on; the coordinator's job, which is measured; and all sites in one. The job sends each site a request
of so many pieces of 4 MiB, a call each as in `training.engines.flare.calls`, asks it, and fetches an
answer as long. There is no TLS: what that costs is not in it, and the lines are within this machine.

Forms: "as it is" leaves memory to Python; "searched" frees what calls leave (`CallLeftovers`); "mapped" also
has the C library give back each block of half a mebibyte (MALLOC_MMAP_THRESHOLD_). Memory is above what the
process has before the first call, whose libraries are FLARE's alone. Processor seconds are of the job's
process and of the server's, for each GiB that goes down or up.
"""

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from threading import BoundedSemaphore, Thread, active_count
from typing import Annotated, Any

import psutil
import typer
from job_processes import PEAK, told_by_kernel
from nvflare.collab.runtime.defs import MSG_CHANNEL, MSG_TOPIC
from nvflare.fuel.f3.cellnet.cell import Adapter, Cell
from nvflare.fuel.f3.cellnet.utils import new_cell_message
from nvflare.fuel.f3.message import Message
from quick import start
from services import free_port
from tables import print_conditions, print_table, write_table

from training.engines.flare.flare_calls import CallLeftovers, spare_what_is_here

MIB, GIB = 1 << 20, 1 << 30
PIECE = 4 * MIB
TIMEOUT = 3600  # seconds
HEADER = (
    "sites",
    "form",
    "pieces at once",
    "MiB moved",
    "peak, MiB",
    "at the end",
    "of it leftovers",
    "of it free, and kept by the C library",
    "left",
    "threads",
    "s of the job / GiB",
    "s of the server / GiB",
)


class Form(StrEnum):
    """How memory is treated."""

    AS_IT_IS = "as it is"
    SEARCHED = "searched"
    MAPPED = "mapped"


class Role(StrEnum):
    """Which process this is."""

    SERVER = "server"
    SITES = "sites"
    JOB = "job"


def cell(name: str, url: str) -> Cell:
    """A cell of FLARE's that is connected, or will be."""
    made = Cell(name, url, False, {})
    made.start()
    return made


def be_sites(url: str, count: int) -> None:
    """All sites, until the process is ended; one line says that they are there."""

    def answer(request: Message) -> Message:
        length = request.payload["length"]
        return new_cell_message({}, {"body": b"x" * length})

    for number in range(count):
        site = cell(f"site-{number}", url)
        adapter = Adapter(answer, site.core_cell.my_info, site)
        site.register_blob_cb(channel=MSG_CHANNEL, topic=MSG_TOPIC, blob_cb=adapter.call)
    print("ready", flush=True)
    time.sleep(TIMEOUT)


def be_job(url: str, count: int, form: Form, pieces: int, at_once: int) -> dict[str, float]:
    """Ask all sites at once; what it took."""
    job = cell("coordinator", url)
    in_flight, threads = BoundedSemaphore(at_once), [0]
    leftovers = CallLeftovers() if form != Form.AS_IT_IS else None
    if leftovers is not None:
        spare_what_is_here()

    def send(site: int, body: bytes, length: int) -> Message:
        return job.send_request(
            channel=MSG_CHANNEL,
            target=f"site-{site}",
            topic=MSG_TOPIC,
            request=new_cell_message({}, {"body": body, "length": length}),
            timeout=TIMEOUT,
        )

    def call(site: int, body: bytes, length: int) -> None:
        with in_flight:
            if len(send(site, body, length).payload["body"]) != length:
                raise SystemExit(f"site {site} answered with something else")
        if leftovers is not None:
            leftovers.add(len(body))

    def ask(site: int) -> None:
        for _ in range(pieces):
            call(site, bytes(PIECE), 0)
        call(site, b"", 0)
        for _ in range(pieces):
            call(site, b"", PIECE)
        threads[0] = max(threads[0], active_count())

    for site in range(count):
        while send(site, b"", 0).payload is None:
            time.sleep(1)  # not connected yet
    before, spent = told_by_kernel("self", "VmRSS"), time.process_time()
    asking = [Thread(target=ask, args=(site,)) for site in range(count)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    spent = time.process_time() - spent
    ended = told_by_kernel("self", "VmRSS")
    peak = told_by_kernel("self", PEAK)
    gc.collect()
    searched = told_by_kernel("self", "VmRSS")
    trim()
    left = told_by_kernel("self", "VmRSS")
    return {
        "peak": peak - before,
        "end": ended - before,
        "leftovers": ended - searched,
        "free": searched - left,
        "left": left - before,
        "threads": threads[0],
        "spent": spent,
    }


def trim() -> None:
    """Have the C library give back what it can."""
    import ctypes

    ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def process(role: Role, url: str, count: int) -> Iterator[subprocess.Popen[str]]:
    """Another process of this script, while it lasts."""
    command = [sys.executable, __file__, "--role", role, "--url", url, "--sites", str(count)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def measure(count: int, form: Form, pieces: int, at_once: int) -> tuple[str, ...]:
    """A line of the table."""
    url = f"grpc://localhost:{free_port()}"
    environment = {**os.environ, "MALLOC_ARENA_MAX": "4"}  # as `dermfed-node start` has it
    if form == Form.MAPPED:
        environment["MALLOC_MMAP_THRESHOLD_"] = str(MIB // 2)
    with process(Role.SERVER, url, count) as server, process(Role.SITES, url, count) as sites:
        assert sites.stdout is not None
        sites.stdout.readline()
        before = seconds(server.pid)
        command = [sys.executable, __file__, "--role", Role.JOB, "--url", url, "--sites", str(count)]
        command += ["--form", form, "--pieces", str(pieces), "--at-once", str(at_once)]
        ended = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        passed_on = seconds(server.pid) - before
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    moved = 2 * count * pieces * PIECE
    return (
        f"{count}",
        form,
        f"{at_once}",
        f"{moved / MIB:,.0f}",
        *(f"{found[name] / MIB:z.0f}" for name in ("peak", "end", "leftovers", "free", "left")),
        f"{found['threads']:.0f}",
        f"{found['spent'] / (moved / GIB):.1f}",
        f"{passed_on / (moved / GIB):.1f}",
    )


def seconds(pid: int) -> float:
    """Processor seconds of a process."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def rows_of(sites: Sequence[int], forms: Sequence[Form], pieces: int, at_once: Sequence[int]) -> Any:
    """All lines, the forms in turn."""
    return [measure(count, form, pieces, many) for many in at_once for count in sites for form in forms]


def main(
    sites: Annotated[list[int] | None, typer.Option(help="How many sites; may be repeated.")] = None,
    form: Annotated[list[Form] | None, typer.Option(help="All by default.")] = None,
    pieces: Annotated[int, typer.Option(help="Pieces of a request, and of an answer.")] = 3,
    at_once: Annotated[list[int] | None, typer.Option(help="Pieces in flight.")] = None,
    table: Annotated[Path | None, typer.Option(help="Where the table is written.")] = None,
    role: Annotated[Role | None, typer.Option(hidden=True)] = None,
    url: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Measure, and print."""
    counts, forms, many = sites or [4, 16], form or list(Form), at_once or [4]
    match role:
        case Role.SERVER:
            cell("server", url)
            time.sleep(TIMEOUT)
        case Role.SITES:
            be_sites(url, counts[0])
        case Role.JOB:
            print(json.dumps(be_job(url, counts[0], forms[0], pieces, many[0])), flush=True)
            os._exit(0)  # FLARE's threads would go on
    if role is not None:
        return
    print_conditions("FLARE's calls alone", {"piece": "4 MiB", "pieces of a request": f"{pieces}"})
    rows = rows_of(counts, forms, pieces, many)
    print_table(HEADER, rows)
    if table is not None:
        write_table(table, HEADER, rows)


if __name__ == "__main__":
    start(main, "--sites 2 --pieces 1 --form searched")
