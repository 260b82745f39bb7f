"""How much room a pool has at its service level: now, after a loss, until when, and with prefill and decode apart."""
