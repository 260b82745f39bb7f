"""Who is told of an incident: one module per kind of output, which turns a note into a request."""
