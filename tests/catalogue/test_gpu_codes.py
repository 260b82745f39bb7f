"""Masks and codes of GPU exporters are printed in words, in every surface that prints a value with its unit."""

from __future__ import annotations

import pytest

from inferdoc.words import figure
from tests.judging.frames import catalogue


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0, "none"),
        (4, "software power cap"),
        (96, "software thermal slowdown, hardware thermal slowdown"),
        (19.8, "changing reasons"),
    ],
)
def test_a_mask_of_clock_reasons_is_its_reasons(mask, words):
    assert figure(mask, "bits") == words


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "none"),
        (79, "Xid 79 (GPU has fallen off the bus; NVIDIA: restart the node)"),
        (45, "Xid 45 (cleanup after an earlier error; NVIDIA: look for the Xid before it)"),
        (149, "Xid 149 (NVLink error; NVIDIA: follow the workflow for NVLink 5)"),
        (999, "Xid 999 (not in the catalog of NVIDIA)"),
    ],
)
def test_an_error_code_has_its_name(code, words):
    assert figure(code, "Xid") == words


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "none"),
        (12028, "SXid 12028 (egress: privilege error; NVIDIA: restart the virtual machine)"),
        (12020, "SXid 12020 (egress: sequence ID error; NVIDIA: restart the host)"),
        (11012, "SXid 11012 (single-bit memory error, corrected; NVIDIA: no action by itself)"),
        (19999, "SXid 19999 (not in the guide of NVIDIA)"),
    ],
)
def test_an_error_code_of_a_switch_has_its_name_and_action(code, words):
    assert figure(code, "SXid") == words


def test_signals_of_masks_and_codes_have_these_units():
    units = {name: signal.unit for name, signal in catalogue().signals.items()}
    assert units["throttle_reasons"] == "bits" and units["xid_last"] == "Xid" and units["sxid_last"] == "SXid"


@pytest.mark.parametrize("unit", ["1/s", "tokens/s", "bytes/s", "requests/s"])
def test_no_rate_is_below_zero(unit):
    """Aborted requests are taken off a counter in hindsight."""
    assert not figure(-0.3, unit).startswith("-") and figure(-0.3, unit).startswith("0")


def test_a_change_may_be_negative():
    assert figure(-0.3, "ratio") == "-30 %"
