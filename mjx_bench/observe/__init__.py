"""What a policy is shown: pictures of lanes from batched renderers, with visual events and sensor faults applied."""
