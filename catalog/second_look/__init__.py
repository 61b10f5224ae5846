"""Reading a list again as another client, to find vendors that show others another tool. Off by default."""
