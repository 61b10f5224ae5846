"""Arguments and outcomes of tool calls, which all protocols share. Pure."""
