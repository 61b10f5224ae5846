"""Connecting, changing and removing vendors and endpoints; previews, requests for vendors, report cards."""
