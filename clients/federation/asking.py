"""Ask the coordinator whether this node may come in: `python -m clients.federation.asking KIT PLACE`.

A process of its own, with an address of its own below the hospital's: FLARE would close the connection of
the node that is there in favour of one that comes in its name. A coordinator that does not answer, or not in
these words, has nothing against it.
"""

import json
import os
import sys
import time
from pathlib import Path
from secrets import token_hex

from dermfed.own_names import refuse_foreign

if __name__ == "__main__":
    refuse_foreign()

from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.utils import new_cell_message
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.private.defs import CellChannel, CellChannelTopic

from clients.federation.kit import Kit, open_kit

PLACE = "dermfed_place"  # header of the question
REFUSED = "dermfed: "  # how the refusal begins
KEPT_OUT = 3  # the exit code of one that is refused; the reason is the last line on standard output
SECONDS, PAUSE = 10.0, 0.5  # to reach the coordinator, and between tries
NOT_REACHED = (ReturnCode.TARGET_UNREACHABLE, ReturnCode.COMM_ERROR)


def ask(kit: Kit, place: str) -> str:
    """Why the coordinator lets this node not in; empty where it does, or cannot be asked."""
    startup = kit.certificate.parent
    [server] = json.loads((startup / "fed_client.json").read_text())["servers"]
    cell = Cell(
        fqcn=f"{kit.facts.identity}.asks-{token_hex(4)}",
        root_url=f"{server['service']['scheme']}://{server['service']['target']}",
        secure=True,
        credentials={
            DriverParams.CA_CERT.value: str(startup / "rootCA.pem"),
            DriverParams.CLIENT_CERT.value: str(kit.certificate),
            DriverParams.CLIENT_KEY.value: str(kit.key),
        },
        create_internal_listener=False,
    )
    cell.start()
    until = time.monotonic() + SECONDS
    while True:
        reply = cell.send_request(
            channel=CellChannel.SERVER_MAIN,
            topic=CellChannelTopic.Register,
            target="server",
            request=new_cell_message({PLACE: place}, None),
            timeout=SECONDS,
            optional=True,
        )
        code = reply.get_header(MessageHeaderKey.RETURN_CODE)
        if code not in NOT_REACHED or time.monotonic() > until:
            break
        time.sleep(PAUSE)
    error = str(reply.get_header(MessageHeaderKey.ERROR) or "")
    cell.stop()
    return error.removeprefix(REFUSED) if error.startswith(REFUSED) else ""


def main() -> int:
    """Ask, print the reason, and return the exit code."""
    _, kit, place = sys.argv
    reason = ask(open_kit(Path(kit), "hospital"), place)
    print(reason, flush=True)
    return KEPT_OUT if reason else 0


if __name__ == "__main__":
    os._exit(main())  # FLARE's threads would keep it alive
