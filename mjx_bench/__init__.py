"""The mechanism: tasks, physics, controllers, events, paired rollouts, records and statistics."""
