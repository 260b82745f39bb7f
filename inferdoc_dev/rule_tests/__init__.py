"""promtool unit tests of the generated rules, from the conditions of their causes."""
