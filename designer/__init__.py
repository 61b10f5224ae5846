"""Agents and all that designers decide about them: pins, tunings, procedures, environments and releases.

The modules beside the packages are found by Django and Celery by name, or shared by all packages.
"""
