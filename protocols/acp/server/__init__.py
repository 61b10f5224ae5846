"""The server of ACP, without Django: agents, threads and runs."""
