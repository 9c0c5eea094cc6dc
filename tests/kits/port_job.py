"""A job with a web page: HTTP and a websocket on BAILIFF_PORT, as a notebook has. It says what it was sent."""

import asyncio
import base64
import hashlib
import json
import os

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *rest = head.strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in rest)}
    if headers.get("upgrade") == "websocket":
        accept = base64.b64encode(hashlib.sha1((headers["sec-websocket-key"] + GUID).encode()).digest()).decode()
        writer.write(
            f"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()
        return
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    text = json.dumps({"line": line, "headers": headers, "body": body.decode()})
    own = "Set-Cookie: _xsrf=1; Path=/\r\nSet-Cookie: bailiff=stolen; Path=/\r\nSet-Cookie: wide=1; Domain=example.org\r\n"
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{own}Content-Length: {len(text)}\r\n\r\n{text}".encode())
    await writer.drain()
    writer.close()


async def main() -> None:
    """Serve until stopped."""
    server = await asyncio.start_server(serve, "127.0.0.1", int(os.environ["BAILIFF_PORT"]))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
