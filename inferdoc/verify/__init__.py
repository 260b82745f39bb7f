"""`inferdoc verify`: what a step that was taken after a finding has brought, measured, and a ledger of it."""
