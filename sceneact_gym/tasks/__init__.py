"""The tasks. A new one is a module here, an evaluator, and a line in `TASKS`."""

from __future__ import annotations

from sceneact_gym.tasks.articulated import ArticulatedTask
from sceneact_gym.tasks.base import Score, Submission, Task
from sceneact_gym.tasks.camera import CameraTask
from sceneact_gym.tasks.dynamic import DynamicPhotorealTask, DynamicTask
from sceneact_gym.tasks.layout import LayoutMultiViewTask, LayoutTask
from sceneact_gym.tasks.reconstruction import ReconstructionTask

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        LayoutTask(),
        LayoutMultiViewTask(),
        CameraTask(),
        ArticulatedTask(),
        ReconstructionTask(),
        DynamicTask(),
        DynamicPhotorealTask(),
    )
}

__all__ = ["TASKS", "Score", "Submission", "Task"]
