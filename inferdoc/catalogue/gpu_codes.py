"""What the numbers of GPU exporters mean: reasons that hold clocks, and error codes of the driver.

Sources: NVML nvmlClocksEventReasons (DCGM field 112); NVIDIA Xid catalog (docs.nvidia.com/deploy/xid-errors).
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
XIDS = {
    13: "graphics engine exception",
    31: "GPU memory page fault",
    43: "GPU stopped processing",
    45: "cleanup after an earlier error",
    48: "double-bit memory error",
    61: "firmware breakpoint",
    62: "firmware halt",
    63: "memory row remapped",
    64: "memory row remap failed",
    69: "graphics engine class error",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "many single-bit memory errors",
    94: "contained memory error",
    95: "uncontained memory error",
    109: "context switch timeout",
    119: "firmware (GSP) timeout",
    120: "firmware (GSP) error",
    121: "C2C link error",
    140: "unrecovered memory error",
    143: "GPU initialization failure",
}


def clock_reasons(mask: float) -> str:
    """The bits of a mask in words: 72 -> "hardware slowdown, hardware thermal slowdown". A mean of masks has none."""
    if mask != int(mask):
        return "changing reasons"
    return ", ".join(words for bit, words in CLOCK_REASONS.items() if int(mask) & bit) or "none"


def xid(code: float) -> str:
    """An error code in words: 79 -> "Xid 79 (GPU has fallen off the bus)"."""
    if code != int(code):
        return "changing codes"
    if code == 0:
        return "none"
    return f"Xid {code:g} ({XIDS.get(int(code), 'see the vendor list of error codes')})"
