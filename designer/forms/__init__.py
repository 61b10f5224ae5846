"""Forms for agents, pins and tuned texts. The operations check the rules."""
