"""Running agents over cases, and showing what came out."""
