"""The evaluators: pure functions from a submission and its truth to a score. No Blender, no files, no global state."""
