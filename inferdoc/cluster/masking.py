"""Secrets in lines of a log: what looks like one is not handed on."""

from __future__ import annotations

import re

MASK = "***"
AFTER_A_NAME = re.compile(
    r"(?i)((?:[\w-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|credential|authorization|cookie)[\w-]*)"
    r"""["']?\s*[:=]\s*["']?(?:bearer\s+|basic\s+)?)[^\s"',;&}]+"""
)
"""`name=value`, `"name": "value"`, `Authorization: Bearer value`."""
BY_THEIR_LOOK = re.compile(
    r"(?i:\bbearer\s+)[\w.~+/=-]{8,}"
    r"|\b(?:hf_|sk-|ghp_|gho_|glpat-|xox[abpr]-|nvapi-|AKIA|ASIA)[\w-]{8,}"
    r"|\beyJ[\w-]+\.[\w-]+\.[\w-]*"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
"""Tokens of Hugging Face, OpenAI, GitHub, GitLab, Slack, NVIDIA and AWS, JSON web tokens, passwords in addresses."""


def masked(line: str) -> str:
    """The line without what looks like a secret."""
    return BY_THEIR_LOOK.sub(MASK, AFTER_A_NAME.sub(rf"\g<1>{MASK}", line))
