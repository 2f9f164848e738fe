"""Case sources: where an episode's pictures, assets and hidden truth come from."""
