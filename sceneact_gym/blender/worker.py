"""The worker: runs inside Blender's own Python, reads requests from one pipe and answers on another.

A frame is a 16-byte header (magic, length of the JSON, length of the bytes behind it), UTF-8 JSON, raw bytes. One
request gets one answer with the same id. The operations are the public functions of `worker_ops`. Agent code runs in
this very process, so nothing that leaves it is trusted by the other side, and nothing secret may ever enter it.

Standard library, bpy and numpy only; nothing of the package.
"""

from __future__ import annotations

import json
import os
import struct
import sys

HEADER = struct.Struct("<4sIQ")
MAGIC = b"SAG1"


def read_exactly(fd: int, count: int) -> bytes:
    """Reads `count` bytes; an empty result means that the parent is gone."""
    chunks = []
    while count:
        chunk = os.read(fd, min(count, 1 << 20))
        if not chunk:
            return b""
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)


def read_frame(fd: int) -> tuple[dict, list[bytes]] | None:
    """One request and its blobs, or None when the parent is gone."""
    header = read_exactly(fd, HEADER.size)
    if not header:
        return None
    magic, json_length, blob_length = HEADER.unpack(header)
    if magic != MAGIC:
        raise SystemExit("worker: a request does not begin with the protocol's magic")
    message = json.loads(read_exactly(fd, json_length))
    body = read_exactly(fd, blob_length) if blob_length else b""
    blobs, start = [], 0
    for length in message.get("blobs", ()):
        blobs.append(body[start : start + length])
        start += length
    return message, blobs


def write_frame(fd: int, message: dict, blobs: list[bytes]) -> None:
    """Writes one answer."""
    message["blobs"] = [len(blob) for blob in blobs]
    text = json.dumps(message).encode()
    data = memoryview(b"".join([HEADER.pack(MAGIC, len(text), sum(message["blobs"])), text, *blobs]))
    while data:
        data = data[os.write(fd, data) :]


def answer(operations: dict, message: dict, blobs: list[bytes], refused: type[Exception]) -> tuple[dict, list[bytes]]:
    """Runs one operation; an exception becomes an error answer, never the end of the worker."""
    number = message.get("id")
    try:
        result = operations[message["op"]](*blobs, **message.get("args", {}))
    except refused as problem:
        return {"id": number, "error": {"kind": "refused", "message": str(problem)}}, []
    except BaseException as problem:  # noqa: B036 - also SystemExit: an operation must not end the worker
        import traceback

        return {
            "id": number,
            "error": {
                "kind": "failed",
                "message": f"{type(problem).__name__}: {problem}",
                "traceback": traceback.format_exc(limit=-8),
            },
        }, []
    if isinstance(result, tuple):
        return {"id": number, "result": result[0]}, list(result[1])
    return {"id": number, "result": result}, []


def main() -> None:
    """Serves requests until the parent closes the pipe."""
    arguments = sys.argv[sys.argv.index("--") + 1 :]
    requests, answers = int(arguments[0]), int(arguments[1])
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import worker_ops  # type: ignore[import-not-found]

    operations = {name: getattr(worker_ops, name) for name in worker_ops.OPERATIONS}
    while True:
        frame = read_frame(requests)
        if frame is None:
            # os._exit: Blender's own teardown is slow, and agent code may have registered exit handlers that never end.
            os._exit(0)
        write_frame(answers, *answer(operations, *frame, worker_ops.Refused))


if __name__ == "__main__":
    main()
