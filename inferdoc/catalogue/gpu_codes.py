"""What the numbers of GPU exporters mean: reasons that hold clocks, and error codes of GPUs and NVSwitches.

Sources: NVML nvmlClocksEventReasons (DCGM field 112); NVIDIA Xid catalog for Ampere and newer, read 2026-11-27
(docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html); for SXids appendix D of NVIDIA's Fabric Manager user
guide, DU-09883-001 v1.3 (codes, names and what resets them).
"""

from __future__ import annotations

from collections.abc import Mapping

CLOCK_REASONS = {
    1: "idle",
    2: "clocks set by an application",
    4: "software power cap",
    8: "hardware slowdown",
    16: "sync boost",
    32: "software thermal slowdown",
    64: "hardware thermal slowdown",
    128: "hardware power brake",
    256: "clocks of the display",
}
NOTHING, RESTART, RESET, SUPPORT = "no action by itself", "restart the engine", "reset the GPU", "ask the vendor"
NVLINK5 = "follow the workflow for NVLink 5"
XIDS: dict[int, tuple[str, str]] = {
    8: ("GPU stopped processing", RESTART),
    11: ("invalid push buffer stream", RESTART),
    13: ("graphics engine exception", RESTART),
    14: ("error injected by a user", NOTHING),
    25: ("invalid push buffer stream", RESTART),
    31: ("GPU memory page fault", RESTART),
    32: ("corrupted push buffer stream", RESTART),
    37: ("driver firmware error", NOTHING),
    38: ("driver firmware error", NOTHING),
    **dict.fromkeys((39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), ("copy engine exception", RESTART)),
    43: ("GPU stopped processing for an application error", NOTHING),
    44: ("fault during a context switch", NOTHING),
    45: ("cleanup after an earlier error", "look for the Xid before it"),
    46: ("GPU stopped processing", RESET),
    48: ("double-bit memory error", RESET),
    54: ("auxiliary power is not connected", "check the power cables"),
    60: ("video processor exception", RESTART),
    61: ("micro-controller breakpoint, on Volta and older", SUPPORT),
    62: ("micro-controller halt", RESET),
    63: ("memory row remapped", NOTHING),
    64: ("memory row remap failed", RESET),
    66: ("illegal access by the driver", NOTHING),
    67: ("illegal access by the driver", NOTHING),
    **dict.fromkeys((68, 83, 84, 88, 89, 96, 97, 98), ("video decoder error", RESTART)),
    69: ("graphics engine class error", RESTART),
    74: ("NVLink error", RESET),
    78: ("vGPU did not start", "update driver and firmware"),
    79: ("GPU has fallen off the bus", "restart the node"),
    80: ("corrupted data sent to the GPU", RESTART),
    **dict.fromkeys((82, *range(99, 106)), ("image decoder error", RESTART)),
    86: ("optical flow engine error", RESTART),
    92: ("many single-bit memory errors", NOTHING),
    93: ("InfoROM wear limit", NOTHING),
    94: ("contained memory error", RESTART),
    95: ("uncontained memory error", RESET),
    106: ("test message", NOTHING),
    107: ("test message", NOTHING),
    109: ("context switch timeout", RESET),
    110: ("security fault", RESET),
    119: ("firmware (GSP) timeout", RESET),
    120: ("firmware (GSP) error", RESET),
    121: ("C2C link error, corrected", NOTHING),
    136: ("NVLink training failed", RESET),
    137: ("NVLink privilege error", NOTHING),
    139: ("optical flow engine error", RESTART),
    140: ("unrecovered memory error", RESET),
    141: ("CUDA fast path error", NOTHING),
    142: ("video encoder error", SUPPORT),
    143: ("GPU initialization error", RESET),
    **dict.fromkeys(range(144, 151), ("NVLink error", NVLINK5)),
    151: ("key rotation error", "restart the virtual machine"),
    152: ("DLA error", NOTHING),
    153: ("DLA timeout", NOTHING),
    154: ("recovery action changed", "do what the driver's log line names"),
    155: ("NVLink is down by software", RESET),
    156: ("resource retired", RESET),
    157: ("resource retirement failed", NOTHING),
    158: ("GPU fatal timeout", RESET),
    159: ("CHI error on the C2C link", SUPPORT),
    160: ("memory channel retired", NOTHING),
    161: ("memory channel retirement failed", NOTHING),
    162: ("power smoothing is on again", NOTHING),
    163: ("power smoothing is off", NOTHING),
    164: ("power smoothing is near the end of its life", NOTHING),
    165: ("power smoothing is at the end of its life", NOTHING),
    166: ("NVLink traffic before encryption", SUPPORT),
    167: ("PCIe fatal timeout", SUPPORT),
    168: ("less memory: errors in a protected region", "enable ECC, or reset the GPU"),
    169: ("micro-controller halt", SUPPORT),
    170: ("interrupt in confidential mode", SUPPORT),
    171: ("uncorrectable DRAM error", "follow the Xid 48 beside it"),
    172: ("uncorrectable SRAM error", "follow the Xid 48 beside it"),
}
"""By code: NVIDIA's name for it in short, and its immediate action. Without codes that the catalog calls unused; for
for those without an action, contact the vendor."""

RESTART_VM, RESTART_HOST = "restart the virtual machine", "restart the host"
RESET_ALL = "reset all GPUs and NVSwitches"
CHECK_LINKS = "check the mechanical connections of the links"
SXIDS: dict[int, tuple[str, str]] = {
    10001: ("host privilege error", SUPPORT),
    10002: ("host privilege timeout", SUPPORT),
    10003: ("unhandled interrupt of the host", RESET_ALL),
    10004: ("the switch is too hot", "check the cooling"),
    10005: ("the switch has cooled down", "check the cooling"),
    11004: ("ingress: invalid ACL", "check the partitions of the fabric, restart the virtual machine"),
    **dict.fromkeys((11001, 11009), ("ingress: invalid command or VC set", RESTART_VM)),
    **dict.fromkeys(
        (
            11012,
            11021,
            11022,
            11023,
            12021,
            12023,
            15008,
            15011,
            19049,
            19055,
            19057,
            19059,
            19062,
            19065,
            19068,
            19071,
        ),
        ("single-bit memory error, corrected", NOTHING),
    ),
    **dict.fromkeys((11013, 11018, 11019), ("ingress: double-bit memory error", RESTART_VM)),
    **dict.fromkeys(range(24001, 24004), ("single-bit memory error, corrected", NOTHING)),
    11020: ("ingress: control parity error", RESTART_VM),
    **dict.fromkeys((12001, 12025), ("egress: buffer or credit overflow", RESTART_VM)),
    12002: ("egress: packet route error", RESTART_VM),
    12020: ("egress: sequence ID error", RESTART_HOST),
    **dict.fromkeys((12022, 12024), ("egress: double-bit memory error", RESTART_VM)),
    **dict.fromkeys((12026, 12027), ("egress: wrong destination of a packet", RESTART_VM)),
    12028: ("egress: privilege error", RESTART_VM),
    **dict.fromkeys((12030, 12031), ("egress: parity error", RESTART_VM)),
    12032: ("egress: flit type mismatch", RESTART_VM),
    14017: ("request timeout (TS ATO)", RESTART_VM),
    **dict.fromkeys((15001, 15006), ("route: buffer overflow or underflow", RESTART_VM)),
    **dict.fromkeys((15009, 15012), ("route: double-bit memory error", RESTART_VM)),
    **dict.fromkeys((15010, 15013), ("route: parity error", RESTART_VM)),
    **dict.fromkeys(
        (
            19047,
            19048,
            19054,
            19056,
            19058,
            19060,
            19061,
            19063,
            19064,
            19066,
            19067,
            19069,
            19070,
            *range(24004, 24007),
        ),
        ("double-bit memory error", RESTART_VM),
    ),
    19084: ("heartbeat timeout (AN1)", RESET_ALL),
    20001: ("NVLink packets sent again", NOTHING),
    20009: ("short-term error rate of a link", NOTHING),
    20012: ("broken or inconsistent connection", CHECK_LINKS),
    20034: ("NVLink has failed (LTSSM fault up)", RESTART_VM),
    **dict.fromkeys((22003, 22011), ("micro-controller of a link halted", RESTART_HOST)),
    22012: ("micro-controller of a link: no answer (NA interrupt)", CHECK_LINKS),
    22013: ("micro-controller of a link: request interrupt", NOTHING),
    **dict.fromkeys((23001, 23002, 23010, 23011), ("ingress: buffer overflow or underflow", RESTART_HOST)),
    **dict.fromkeys((23003, 23004, 23012, 23013), ("egress: credit overflow or underflow", RESTART_HOST)),
    **dict.fromkeys((*range(23005, 23010), *range(23014, 23018)), ("ingress: packet or credit error", RESTART_HOST)),
    24007: ("source tracking timeout", RESTART_VM),
}
"""By code of an NVSwitch: NVIDIA's name for it in short, and what its guide names as recovery. Errors that may be fatal
restart the virtual machine, those that always are the host."""


def clock_reasons(mask: float) -> str:
    """The bits of a mask in words: 72 -> "hardware slowdown, hardware thermal slowdown". A mean of masks has none."""
    if mask != int(mask):
        return "changing reasons"
    return ", ".join(words for bit, words in CLOCK_REASONS.items() if int(mask) & bit) or "none"


def xid(code: float) -> str:
    """An error code in words: 79 -> "Xid 79 (GPU has fallen off the bus; NVIDIA: restart the node)"."""
    return _code(code, "Xid", XIDS, "catalog")


def sxid(code: float) -> str:
    """An error code of an NVSwitch: 20001 -> "SXid 20001 (NVLink packets sent again; NVIDIA: ...)"."""
    return _code(code, "SXid", SXIDS, "guide")


def _code(code: float, word: str, names: Mapping[int, tuple[str, str]], where: str) -> str:
    if code != int(code):
        return "changing codes"
    if code == 0:
        return "none"
    known = names.get(int(code))
    return f"{word} {code:g} ({f'{known[0]}; NVIDIA: {known[1]}' if known else f'not in the {where} of NVIDIA'})"
