"""A real SMTP server on loopback (RFC 5321, as much as a client needs): it keeps mails, refuses or hangs."""

from __future__ import annotations

import asyncio
import email
import ssl
import threading
from concurrent.futures import Future
from email.message import Message
from enum import StrEnum


class Mode(StrEnum):
    WELL = "well"
    # 5xx to each recipient.
    REFUSING = "refusing"
    # It accepts connections, and says nothing.
    HANGING = "hanging"
    # It ends each connection without a word.
    CLOSING = "closing"


class SmtpServer:
    """Serves in a thread of its own from the start until :meth:`close`. ``mails``: with header and body."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        """``context``: of its encryption, from the first byte on."""
        self.mode = Mode.WELL
        self.mails: list[Message] = []
        self.connections = 0
        self.commands: list[bytes] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        started: Future[asyncio.Server] = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context), self._loop
        )
        self._server = started.result(10)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            current = asyncio.current_task()
            others = [task for task in asyncio.all_tasks() if task is not current]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            if self.mode is Mode.HANGING:
                await asyncio.Event().wait()
            if self.mode is not Mode.CLOSING:
                await self._talk(reader, writer)
        finally:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 test ESMTP\r\n")
        while line := await reader.readline():
            command = line.split()[0].upper() if line.split() else b""
            self.commands.append(command)
            match command:
                case b"RCPT" if self.mode is Mode.REFUSING:
                    answer = b"550 5.7.1 no such mailbox"
                case b"DATA":
                    writer.write(b"354 go on\r\n")
                    body = await reader.readuntil(b"\r\n.\r\n")
                    self.mails.append(email.message_from_bytes(body[:-3]))
                    answer = b"250 kept"
                case b"QUIT":
                    writer.write(b"221 bye\r\n")
                    return
                case _:
                    answer = b"250 ok"
            writer.write(answer + b"\r\n")
            await writer.drain()
