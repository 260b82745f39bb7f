"""Judging: references, conditions, recipes, roots and effects, and the answer."""
