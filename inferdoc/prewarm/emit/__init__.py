"""Emitters: a plan in the form of what people run. Each is one module; `registry` names them."""
