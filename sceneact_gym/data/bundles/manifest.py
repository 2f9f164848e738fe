"""Case bundles: a folder of case folders with `manifest.json`, which holds the SHA-256 and the size of every file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sceneact_gym.errors import CaseNotFound

MANIFEST = "manifest.json"
FORMAT = 1


def write_manifest(bundle: Path, about: Mapping[str, Any]) -> None:
    """Writes the manifest over all files that are there.

    Args:
        bundle: the folder of case folders.
        about: further JSON values, for example the package's version.
    """
    files = {
        path.relative_to(bundle).as_posix(): {"sha256": _sha256(path), "size": path.stat().st_size}
        for path in sorted(bundle.rglob("*"))
        if path.is_file() and path != bundle / MANIFEST
    }
    text = json.dumps({"format": FORMAT, **about, "files": files}, indent=1, sort_keys=True)
    (bundle / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(bundle: Path) -> dict[str, Any] | None:
    """The manifest, or None where there is none.

    Raises:
        CaseNotFound: it is there and cannot be used.
    """
    path = bundle / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise CaseNotFound(f"{path} cannot be read: {problem}") from problem
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or manifest.get("format") != FORMAT:
        raise CaseNotFound(f"{path} is no manifest of format {FORMAT}")
    return manifest


def verify(bundle: Path, folder: Path, manifest: Mapping[str, Any]) -> None:
    """Checks the files of one case folder.

    Args:
        bundle: the folder that the manifest is about.
        folder: a case folder in it.
        manifest: from `read_manifest`.

    Raises:
        CaseNotFound: a file is missing, new or not the one of the manifest; the message names it.
    """
    prefix = folder.relative_to(bundle).as_posix() + "/"
    listed = {name: row for name, row in manifest["files"].items() if name.startswith(prefix)}
    found = {path.relative_to(bundle).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    for name in sorted(listed.keys() | found.keys()):
        if name not in found:
            raise CaseNotFound(f"{bundle / name} is missing; {MANIFEST} lists it")
        if name not in listed:
            raise CaseNotFound(f"{bundle / name} is not listed in {MANIFEST}")
        row = listed[name] if isinstance(listed[name], dict) else {}
        if found[name].stat().st_size != row.get("size") or _sha256(found[name]) != row.get("sha256"):
            raise CaseNotFound(f"{bundle / name} is not the file of {MANIFEST}: its SHA-256 differs")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
