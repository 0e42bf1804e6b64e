"""A socket's transport whose closing loses no answer to a caller who is still sending."""

import asyncio
from collections.abc import Callable
from typing import Any


class LingeringTransport(asyncio.Transport):
    """Passes everything on; where more is to come, `close` ends only what is sent.

    A socket that is closed with unread bytes in it is reset, and a reset takes back the answer that has not
    been read yet. So the answer is ended, the rest is read past, and whoever watches the connection closes it
    when the caller has, or after some time by `abort`.
    """

    def __init__(self, transport: asyncio.Transport, more_to_come: Callable[[], bool]) -> None:
        """Wraps a transport.

        Args:
            transport: of the socket.
            more_to_come: whether the caller has not been heard out.
        """
        super().__init__()
        self._transport = transport
        self._more_to_come = more_to_come
        self._lingers = False

    def close(self) -> None:
        """Closes it, or ends what is sent where more is to come."""
        if self.is_closing():
            return
        if self._more_to_come() and self._transport.can_write_eof():
            self._lingers = True
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()

    def close_now(self) -> None:
        """Closes it once all is sent, whatever is to come."""
        self._transport.close()

    def abort(self) -> None:
        """Closes it at once."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether it was closed, if only for what is sent."""
        return self._lingers or self._transport.is_closing()

    def write(self, data: Any) -> None:
        """Sends bytes; none after `close`."""
        if not self._lingers:
            self._transport.write(data)

    def get_write_buffer_size(self) -> int:
        """How many bytes wait to be sent."""
        return self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What is known of the socket."""
        return self._transport.get_extra_info(name, default)

    def is_reading(self) -> bool:
        """Whether what comes is read."""
        return self._transport.is_reading()

    def pause_reading(self) -> None:
        """Reads nothing more for now; what is read past is always read."""
        if not self._lingers:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Reads on."""
        self._transport.resume_reading()
