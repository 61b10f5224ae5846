"""Agents and all that designers decide about them: pins, tunings, procedures, environments and releases.

The modules beside the packages are those that Django and Celery find by name, and what all packages share.
"""
