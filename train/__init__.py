"""From demonstrations to a fine-tuned policy."""
