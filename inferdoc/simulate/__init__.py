"""A fleet to practise on: engines, links, routers and clients simulated from their mechanisms up."""
