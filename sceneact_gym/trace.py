"""The record of an episode: JSON lines, and pictures stored once by the hash of their content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.blender.render import encode_png


class Trace:
    """Writes one episode's folder: `trace.jsonl`, `images/<sha256>.png`, and files of the submission.

    Every line is flushed when it is written, so that a run that is killed keeps what it did.
    """

    def __init__(self, folder: Path | None) -> None:
        """Starts an empty record in `folder`; None records nothing."""
        self.folder = folder
        if folder is not None:
            (folder / "images").mkdir(parents=True, exist_ok=True)
            # backslashreplace: half of a surrogate pair has no UTF-8, but its escape is the same character in JSON.
            self._file = (folder / "trace.jsonl").open("w", encoding="utf-8", errors="backslashreplace")

    def event(self, kind: str, **values: Any) -> None:
        """Appends one line."""
        if self.folder is not None:
            self._file.write(json.dumps({"event": kind, **values}, ensure_ascii=False, default=str) + "\n")
            self._file.flush()

    def images(self, pictures: Iterable[NDArray[np.uint8]]) -> list[str]:
        """Stores pictures; returns the hashes that name them."""
        if self.folder is None:
            return []
        names = []
        for picture in pictures:
            data = encode_png(picture)
            name = hashlib.sha256(data).hexdigest()
            path = self.folder / "images" / f"{name}.png"
            if not path.exists():
                path.write_bytes(data)
            names.append(name)
        return names

    def file(self, name: str, data: bytes) -> None:
        """Stores a file under a name of the package's own choosing."""
        if self.folder is not None:
            (self.folder / name).write_bytes(data)

    def close(self) -> None:
        """Closes the record; safe to call twice."""
        if self.folder is not None:
            self._file.close()


def read_trace(folder: Path) -> Iterator[dict[str, Any]]:
    """The events of an episode's folder, in order; a last line that was cut off is left out."""
    # replace: a line may have been cut off inside a character.
    with (folder / "trace.jsonl").open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                return
