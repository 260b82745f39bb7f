"""Fleets of real vLLM servers on simulated accelerators: load, routing, faults, rollouts, recordings."""
