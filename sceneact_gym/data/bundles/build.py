"""Builds a case bundle from a SPEC file: generated cases and scenes of one's own, with their references rendered."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from sceneact_gym._version import __version__
from sceneact_gym.blender.process import IsolationMode
from sceneact_gym.blender.render import RenderSettings
from sceneact_gym.blender.session import SessionSettings
from sceneact_gym.cases import Case
from sceneact_gym.data.bundles.manifest import write_manifest
from sceneact_gym.data.bundles.spec import Entry, Generated, read_spec
from sceneact_gym.data.procedural.source import ProceduralSource
from sceneact_gym.data.references import ReferenceRenderer
from sceneact_gym.errors import SceneActError
from sceneact_gym.tasks import TASKS


def build(
    spec_path: Path,
    out: Path,
    *,
    isolation: IsolationMode = "auto",
    say: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """Builds the bundle. Nothing is at `out` before all of it is complete.

    Args:
        spec_path: the SPEC file.
        out: a new or empty folder.
        isolation: as for environments.
        say: gets a line per case.

    Returns:
        The ids of the cases.

    Raises:
        SceneActError: something is wrong with the spec or a scene, or `out` holds something.
        InfraError: Blender failed at a reference.
    """
    spec = read_spec(spec_path)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SceneActError(f"{out} exists and is not an empty folder: give a new one")
    out.parent.mkdir(parents=True, exist_ok=True)
    look = RenderSettings(
        engine=spec.render.engine, samples=spec.render.samples, width=spec.render.size, height=spec.render.size
    )
    renderer = ReferenceRenderer(SessionSettings(isolation=isolation, render=look))
    # Beside `out`, so that the rename at the end stays within one file system.
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".part", dir=out.parent))
    part.chmod(0o755)
    ids: list[str] = []
    try:
        for entry in spec.cases:
            for case in entry_cases(entry, spec_path.parent):
                if case.id in ids:
                    raise SceneActError(f"two cases have the id {case.id!r}")
                ids.append(case.id)
                complete(case, renderer, look).save(part / case.id)
                say(f"{case.id}: {case.task}")
        settings = look.as_dict() | {"engine": renderer.session.engine or look.engine}
        write_manifest(
            part,
            {"package": __version__, "blender": renderer.session.version, "render": settings, "cases": ids},
        )
        os.replace(part, out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    finally:
        renderer.close()
    return ids


def complete(case: Case, renderer: ReferenceRenderer, look: RenderSettings) -> Case:
    """The case with all its references as bytes; they are rendered where it has none."""
    if case.public.references:
        return case
    renderer.session.start()
    settings = RenderSettings(**look.as_dict() | {"engine": renderer.session.engine or look.engine})
    case = renderer.complete(case, TASKS[case.task], settings, renderer.session.version)
    return case.with_references(tuple(case.public.references))


def entry_cases(entry: Entry, folder: Path) -> Iterator[Case]:
    """The cases of one entry of a spec.

    Args:
        entry: the entry.
        folder: what its paths are relative to.

    Raises:
        SceneActError: something is wrong with it.
    """
    if isinstance(entry, Generated):
        source = ProceduralSource(entry.task, entry.split)
        if entry.count is not None and source.size is not None and entry.count > source.size:
            raise SceneActError(f"{entry.task} has {source.size} {entry.split} cases, fewer than {entry.count}")
        for case_id in entry.ids or [source.nth(index) for index in range(entry.count or 0)]:
            yield source.load(case_id)
    else:
        from sceneact_gym.data.bundles.own import own_case

        case = own_case(entry, folder)
        wanted = len(TASKS[case.task].reference_views(case))
        if len(entry.references) not in (0, wanted):
            raise SceneActError(f"{case.id} needs {wanted} references, or none; it has {len(entry.references)}")
        yield case.with_references(read_pictures(entry.references, folder))


def read_pictures(names: Sequence[str], folder: Path) -> tuple[bytes, ...]:
    """Pictures as PNG without any metadata.

    Raises:
        SceneActError: one cannot be read.
    """
    pictures = []
    for name in names:
        try:
            picture = Image.open(folder / name).convert("RGBA")
        except OSError as problem:
            raise SceneActError(f"the picture {name} cannot be read: {problem}") from problem
        buffer = io.BytesIO()
        # A new picture: the opened one carries what else the file says.
        Image.fromarray(np.asarray(picture)).save(buffer, format="PNG")
        pictures.append(buffer.getvalue())
    return tuple(pictures)
