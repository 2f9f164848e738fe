"""Case bundles: folders of cases, made of generated cases and of scenes of one's own. See docs/data.md."""
