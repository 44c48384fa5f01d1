"""Control laws: policy action to actuator command, one file a law."""
