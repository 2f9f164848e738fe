"""Agents that come with the package."""

from __future__ import annotations

from sceneact_gym.agents.articulated_search import ArticulatedSearchAgent
from sceneact_gym.agents.base import Agent, BaseAgent
from sceneact_gym.agents.camera_search import CameraSearchAgent
from sceneact_gym.agents.dynamic_tracks import DynamicTracksAgent
from sceneact_gym.agents.layout_search import LayoutSearchAgent
from sceneact_gym.agents.reconstruction_hull import ReconstructionHullAgent
from sceneact_gym.agents.simple import NoopAgent, OracleAgent, RandomAgent
from sceneact_gym.agents.vlm import VLMAgent

AGENTS: dict[str, type[BaseAgent]] = {
    "noop": NoopAgent,
    "random": RandomAgent,
    "oracle": OracleAgent,
    "camera-search": CameraSearchAgent,
    "layout-search": LayoutSearchAgent,
    "articulated-search": ArticulatedSearchAgent,
    "dynamic-tracks": DynamicTracksAgent,
    "reconstruction-hull": ReconstructionHullAgent,
    "vlm": VLMAgent,
}
"""Agents by the name that the command line takes."""

__all__ = [
    "AGENTS",
    "Agent",
    "ArticulatedSearchAgent",
    "BaseAgent",
    "CameraSearchAgent",
    "DynamicTracksAgent",
    "LayoutSearchAgent",
    "NoopAgent",
    "OracleAgent",
    "RandomAgent",
    "ReconstructionHullAgent",
    "VLMAgent",
]
