"""Every test of the command line runs in a folder of its own, without anybody's configuration."""

from tests.cli.command import alone

__all__ = ["alone"]
