"""The persistent, isolated Blender: launcher and worker (child side), session and render settings (parent side)."""
