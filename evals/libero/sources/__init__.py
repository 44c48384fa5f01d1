"""Varied sources that are regenerated from their rules: LIBERO-Plus's seven categories, and six of LIBERO-PRO's ten."""
