"""What the GPU time of a fleet costs, what its tokens cost, and where it is wasted."""
