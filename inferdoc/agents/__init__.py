"""What an agent may ask inferdoc: read-only tools with short answers, over the Model Context Protocol."""
