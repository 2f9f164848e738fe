"""The action space of tool calls."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space, Text
from gymnasium.vector.utils import read_from_shared_memory
from pydantic import ValidationError

from sceneact_gym import tools as toolbox
from sceneact_gym.episode import parse_action
from sceneact_gym.tools import MAX_CALLS


class ToolCalls(Space[Any]):
    """All actions whose calls have known names and valid arguments.

    A member is a call `{"name": str, "arguments": dict}`, a list of at most 16 calls, or a JSON string of either. An
    environment also accepts what is not a member: it answers with an error message.

    Args:
        toolset: `paper` or `typed`.
        without: tools that the task does not offer.
        object_names: objects that samples refer to.
        seed: of the sampling.
    """

    def __init__(
        self,
        toolset: str = "paper",
        without: Sequence[str] = (),
        object_names: Sequence[str] = ("camera",),
        seed: int | np.random.Generator | None = None,
    ) -> None:
        """Builds the space."""
        self.toolset = toolset
        self.without = tuple(without)
        self.object_names = tuple(object_names)
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def tools(self) -> dict[str, toolbox.Tool]:
        """The tools by name."""
        return toolbox.toolset(self.toolset, self.without)

    @property
    def is_np_flattenable(self) -> bool:
        """Calls have no flat form."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> list[dict[str, Any]]:
        """One to three valid calls; `submit` only now and then, so that sampled episodes last.

        Args:
            mask: must be None.
            probability: must be None.
        """
        if mask is not None or probability is not None:
            raise ValueError("ToolCalls cannot be sampled with a mask or with probabilities")
        rng = self.np_random
        names = [name for name in self.tools if name != "submit"]
        calls = []
        for _ in range(int(rng.integers(1, 4))):
            tool = self.tools[names[int(rng.integers(len(names)))]]
            calls.append({"name": tool.name, "arguments": tool.sample(rng, self.object_names)})
        if rng.random() < 0.02:
            calls.append({"name": "submit", "arguments": {}})
        return calls

    def contains(self, x: Any) -> bool:
        """Whether every call of `x` is valid."""
        calls, problem = parse_action(x)
        return not problem and len(calls) <= MAX_CALLS and all(self._is_call(call) for call in calls)

    def _is_call(self, call: Any) -> bool:
        if not isinstance(call, dict) or not set(call) <= {"name", "arguments"}:
            return False
        name = call.get("name")
        if not isinstance(name, str) or name not in self.tools:
            return False
        try:
            self.tools[name].arguments.model_validate(call.get("arguments") or {})
        except (ValidationError, RecursionError):
            return False
        return True

    def to_jsonable(self, sample_n: Iterable[Any]) -> list[Any]:
        """Samples as JSON values."""
        return [json.loads(json.dumps(sample)) for sample in sample_n]

    def from_jsonable(self, sample_n: list[Any]) -> list[Any]:
        """JSON values as samples."""
        return list(sample_n)

    def __eq__(self, other: object) -> bool:
        """Spaces of the same tools are equal."""
        return (
            isinstance(other, ToolCalls)
            and (self.toolset, self.without, self.object_names)
            == (other.toolset, other.without, other.object_names)
        )

    def __repr__(self) -> str:
        """Shows the tool set."""
        return f"ToolCalls({self.toolset!r}, without={self.without!r}, object_names={self.object_names!r})"


class Message(Text):
    """A text. Unlike `Text` it stays up to date in a vector environment that uses shared memory."""


class _SharedTexts(Sequence[str]):
    """The texts in a shared memory, as they are when they are looked at; a deep copy is a tuple of them.

    Gymnasium reads the memory once and hands out copies of what it got, which are views of it for arrays. A tuple of
    texts would be the one of the first time for ever.
    """

    def __init__(self, space: Text, memory: Any, n: int) -> None:
        self._characters = np.array(space.character_list)
        self._codes = np.frombuffer(memory.get_obj(), dtype=ctypes.c_int32).reshape(n, space.max_length)

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[each] for each in range(*index.indices(len(self))))
        codes = self._codes[index]
        # A code beyond the characters stands for nothing.
        return "".join(self._characters[codes[codes < len(self._characters)]].tolist())

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)


@read_from_shared_memory.register(Message)
def _read_messages(space: Message, shared_memory: Any, n: int = 1) -> _SharedTexts:
    return _SharedTexts(space, shared_memory, n)
