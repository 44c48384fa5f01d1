"""LIBERO-MAX: paired rollouts with an event in the middle of the episode."""
