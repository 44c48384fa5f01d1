"""RobotAgentBench on this engine, in a version of our own: "RAB-style, version rab-1". More: docs/robot_agent_bench.md."""
