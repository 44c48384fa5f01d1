"""The native suite: twelve tabletop tasks of our own building, made for every engine."""
