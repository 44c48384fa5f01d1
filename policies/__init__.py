"""Things that act."""
