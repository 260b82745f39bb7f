"""Token ids that the model of make_model.py can speak; the special ones are below."""

FIRST_TOKEN, TOKENS = 3, 4000
