"""A vision-language-action policy with openpi's shapes, names and conventions: pi0.5 at every size, and pi0."""
