"""What the numbers of GPU exporters mean: reasons that hold clocks, and error codes of the driver.

Sources: NVML nvmlClocksEventReasons (DCGM field 112); NVIDIA Xid catalog for Ampere and newer, read 2026-11-27
(docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html).
"""

from __future__ import annotations

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


def clock_reasons(mask: float) -> str:
    """The bits of a mask in words: 72 -> "hardware slowdown, hardware thermal slowdown". A mean of masks has none."""
    if mask != int(mask):
        return "changing reasons"
    return ", ".join(words for bit, words in CLOCK_REASONS.items() if int(mask) & bit) or "none"


def xid(code: float) -> str:
    """An error code in words: 79 -> "Xid 79 (GPU has fallen off the bus; NVIDIA: restart the node)"."""
    if code != int(code):
        return "changing codes"
    if code == 0:
        return "none"
    known = XIDS.get(int(code))
    return f"Xid {code:g} ({f'{known[0]}; NVIDIA: {known[1]}' if known else 'not in the catalog of NVIDIA'})"
