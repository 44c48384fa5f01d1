"""Agents that decide turn by turn: the harness that runs them on any task with declared tools. More: docs/agents.md."""
