"""Scenes made from a seed, with numpy alone: nothing to download, the same bytes for the same seed."""
