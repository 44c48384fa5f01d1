"""Array functions with nothing of ours in them; each fast form has a plain reference next to it."""
