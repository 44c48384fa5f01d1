"""Agents: a scripted one, one behind an OpenAI-compatible server, one that is a program. By name: `registry`."""
