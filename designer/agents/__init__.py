"""Agents: their tree, addresses, vendors, budgets, keys, and transfers between them."""
