"""What fits, how fast, how many and what it costs: the formulas of sizing, pure arithmetic, each with units and source.

Sources by short name: *field guide* "Sizing LLM Inference for Production: a field guide"; *design guide* "Designing
distributed AI inference"; *AIConfigurator* aiconfigurator 0.12 (kernel timings measured under vLLM 0.14 to 0.24, and
its estimates); *vLLM* the source of 0.32; *own choice* set here, to be replaced by a measurement.
Bytes are counted in 1, GB = 1e9, GiB = 2^30; rates are per second; shares are 0..1.
"""
