"""Many workers as one engine: placed, watched, replaced when they fail."""
