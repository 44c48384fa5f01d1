"""RobotWorld on this engine: one task so far, a quadrotor with a suspended payload. More: docs/robotworld.md."""
