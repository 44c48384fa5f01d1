"""One protocol, several engines: scene preparation in `scene`, the engines in `mujoco_c` and its siblings."""
