"""What the role of an observation in a finding is called. JSON keeps `harm`: readers of version 1 look for it."""

from __future__ import annotations

HARM = "harm"


def role_word(role: str) -> str:
    """The word for people of a role of evidence."""
    return "impact" if role == HARM else role
