"""RoboQuest on this engine: one task so far, on the table's room. More: docs/roboquest.md."""
