"""What a designer types about agents, pins and words. The rules live in the operations."""
