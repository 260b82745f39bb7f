"""What prefix caching is worth: hits of other cache sizes and of tiers of memory below, in time and in GPUs."""
